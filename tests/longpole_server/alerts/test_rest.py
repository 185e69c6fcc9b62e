from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from longpole_server.alerts.engines import EngineStep, Rest
from longpole_server.alerts.rest import RestWindow, Samples, observe_engine, with_memory
from longpole_server.model.step import Step
from support.alert_engine_series import EnginePlan, EngineRun, make_step

SECOND = 1_000_000_000
STEP = make_step(EngineRun({"engine": EnginePlan(lambda index: 0.0)}, 1, step_s=100.0), 0)


def series(values: Sequence[float], every_s: float = 10.0) -> Samples:
    """One value every ten seconds of a step of a hundred; the first lies just before it."""
    times = [
        STEP.start_ns + round((index * every_s - 1.0) * SECOND) for index in range(len(values))
    ]
    return Samples(np.array(times, np.int64), np.array(values, np.float64))


def observe(page: dict[str, Sequence[float]], step: Step = STEP) -> EngineStep:
    return observe_engine("engine", {name: series(each) for name, each in page.items()}, step)[0]


def vllm(**changes: Sequence[float]) -> dict[str, Sequence[float]]:
    """At work until 59 s, then at rest: old_log_prob from 60 s, update from 72, sync from 93."""
    page: dict[str, Sequence[float]] = {
        "vllm:num_requests_running": [0, 9, 9, 9, 5, 2, 0, 0, 0, 0, 0],
        "vllm:num_requests_waiting": [0] * 11,
        "vllm:kv_cache_usage_perc": [0, 0.5, 0.6, 0.6, 0.4, 0.2, 0.03, 0.02, 0.02, 0.02, 0.02],
        "vllm:generation_tokens_total": [0, 10, 20, 30, 40, 50, 60, 60, 60, 60, 60],
    }
    return {**page, **{f"vllm:{name}": values for name, values in changes.items()}}


def test_an_engine_rests_once_its_counters_stand():
    engine = observe(vllm())
    assert engine.restless_because is None
    assert engine.rests == (
        Rest("old_log_prob", "", 1, kv_used_ratio=0.02),
        Rest("update_actor", "", 2, kv_used_ratio=0.02),
        Rest("update_weights", "", 1, kv_used_ratio=0.02),
    )
    # At 59 s nothing ran any more, but tokens had come since the scrape before.
    assert engine.tokens_last == 60
    assert engine.busy_s == 50.0
    assert engine.generated_tokens == 50


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"num_requests_running": [1] * 11}, "something ran or waited at all of its scrapes"),
        ({"num_requests_waiting": [1] * 11}, "something ran or waited at all of its scrapes"),
        (
            {"generation_tokens_total": list(range(11))},
            "something ran or waited at all of its scrapes",
        ),
        ({"num_requests_waiting": []}, "it does not report how many requests wait"),
        ({"generation_tokens_total": []}, "it reports no token counter"),
    ],
)
def test_without_rest_it_says_why(changes: dict[str, Sequence[float]], why: str):
    engine = observe(vllm(**changes))
    assert engine.rests == ()
    assert engine.restless_because == why


def test_gauges_frozen_by_an_abort_are_no_rest():
    frozen = [0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]
    engine = observe(
        vllm(
            num_requests_running=frozen,
            kv_cache_usage_perc=[0, *[0.6] * 10],
            generation_tokens_total=[0, 10, 20, 30, *[40] * 7],
        )
    )
    assert engine.rests == ()


def test_asleep_there_is_no_cache_and_the_gauge_is_stale():
    asleep = [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]
    page = {
        **vllm(),
        'vllm:engine_sleep_state{sleep_state="awake"}': [1 - each for each in asleep],
        'vllm:engine_sleep_state{sleep_state="discard_all"}': asleep,
    }
    engine = observe(page)
    assert [(rest.stage, rest.sleep, rest.kv_used_ratio) for rest in engine.rests] == [
        ("old_log_prob", "discard_all", None),
        ("update_actor", "discard_all", None),
        ("update_weights", "discard_all", None),
    ]


def test_the_size_of_the_pool_stands_in_a_label_and_may_change():
    page = {
        **vllm(),
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="100"}': [1] * 7,
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="80"}': [1] * 11,
    }
    engine = observe(page)
    assert engine.rests[-1].pool_size == 80
    assert engine.context_mean is not None


def test_sglang_counts_what_no_cache_may_evict():
    engine = observe(
        {
            "sglang:num_running_reqs": [0, 9, 9, 9, 5, 2, 0, 0, 0, 0, 0],
            "sglang:num_queue_reqs": [0] * 11,
            "sglang:num_used_tokens": [0, *[500] * 5, *[10] * 5],
            "sglang:token_usage": [0, *[0.9] * 10],
            "sglang:max_total_num_tokens": [1_000] * 11,
            'sglang:realtime_tokens_total{mode="decode"}': [0, 1, 2, 3, 4, 5, *[6] * 5],
            'sglang:realtime_tokens_total{mode="prefill_compute"}': [0, *[7] * 10],
        }
    )
    assert {rest.kv_used_ratio for rest in engine.rests} == {0.01}
    assert engine.tokens_last == 13


def test_a_counter_that_falls_is_a_restart():
    engine = observe(vllm(generation_tokens_total=[90, 95, 0, 30, 40, 50, *[60] * 5]))
    assert engine.is_restarted


def test_memory_is_measured_in_the_windows_of_rest():
    found, windows = observe_engine(
        "engine", {name: series(each) for name, each in vllm().items()}, STEP
    )
    asked: list[RestWindow] = []

    def measure(window: RestWindow) -> Rest:
        asked.append(window)
        return Rest(window.stage, window.sleep, 1, device_bytes=5.0, device_total_bytes=10.0)

    engine = with_memory(found, windows, measure)
    assert [rest.device_bytes for rest in engine.rests] == [5.0, 5.0, 5.0]
    assert all(window.start_ns >= STEP.start_ns for window in asked)
    assert (
        observe_engine("engine", {}, STEP)[0].restless_because == "0 scrapes of it lie in the step"
    )


def test_what_is_not_known_stays_unknown():
    fields: dict[str, Any] = {"restless_because": "0 scrapes of it lie in the step"}
    assert observe({}) == EngineStep("engine", 0, **fields)
