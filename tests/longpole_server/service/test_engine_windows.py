from collections.abc import Sequence

import pytest

from longpole_server.model.facts import EngineWindow
from longpole_server.model.records import StageSpan
from longpole_server.model.step import StageTime, Step
from longpole_server.read import EngineBin
from longpole_server.service.engine_windows import rollout_windows, summarise_engines

SECOND = 1_000_000_000
START = 1_750_000_000 * SECOND


def bins_of(name: str, values: Sequence[float | None], *, counter: bool = False) -> list[EngineBin]:
    """Return a series with one value a second; of a counter, its increases."""
    return [
        EngineBin("replica-0", name, at, value, value, value if counter else 0.0)
        for at, value in enumerate(values)
        if value is not None
    ]


def summarise(*series: list[EngineBin], seconds: int = 10) -> EngineWindow:
    rows = [row for each in series for row in each]
    (window,) = summarise_engines(rows, [(START, START + seconds * SECOND)], START, SECOND)
    return window


def test_gauges_and_counters_of_vllm():
    window = summarise(
        bins_of("vllm:num_requests_running", [8.0] * 5 + [4.0] * 5),
        bins_of("vllm:num_requests_waiting", [2.0] * 5 + [0.0] * 5),
        bins_of("vllm:kv_cache_usage_perc", [0.9] * 5 + [0.5] * 5),
        bins_of("vllm:generation_tokens_total", [100.0] * 10, counter=True),
        bins_of("vllm:num_preemptions_total", [1.0] + [0.0] * 9, counter=True),
        bins_of("vllm:prefix_cache_queries_total", [40.0] * 10, counter=True),
        bins_of("vllm:prefix_cache_hits_total", [10.0] * 10, counter=True),
    )
    assert window.running_mean == pytest.approx(6)
    assert window.running_max == 8
    assert window.waiting_mean == pytest.approx(1)
    assert window.queued_s == pytest.approx(5)
    assert window.kv_usage_mean_ratio == pytest.approx(0.7)
    assert window.kv_usage_max_ratio == 0.9
    assert window.generated_tokens == 1000
    assert window.preemptions == 1
    assert window.prefix_hit_ratio == pytest.approx(0.25)
    assert window.idle_s == 0
    assert window.prefill_ratio is None


def test_gauges_of_an_engine_that_stands_still_are_stale():
    window = summarise(
        bins_of("vllm:num_requests_running", [8.0] * 10),
        bins_of("vllm:kv_cache_usage_perc", [0.2] * 4 + [0.9] * 6),
        bins_of("vllm:generation_tokens_total", [100.0] * 3 + [0.0] * 7, counter=True),
    )
    # The bin after the last token may still be live.
    assert window.running_mean == pytest.approx(8 * 4 / 10)
    assert window.kv_usage_max_ratio == 0.2
    assert window.idle_s == pytest.approx(6)


def test_tokens_counted_at_the_end_of_a_request_do_not_make_gauges_stale():
    window = summarise(
        bins_of("sglang:num_running_reqs", [8.0] * 10),
        bins_of("sglang:generation_tokens_total", [0.0] * 7 + [900.0] + [0.0] * 2, counter=True),
    )
    assert window.running_mean == pytest.approx(8 * 8 / 10)
    assert window.generated_tokens == 900
    assert window.idle_s == pytest.approx(2)


def test_scrapes_far_apart_hold_until_the_next():
    window = summarise(
        bins_of("vllm:num_requests_running", [8.0, None, None, None, 4.0] + [None] * 5),
    )
    assert window.running_mean == pytest.approx((8 * 4 + 4 * 6) / 10)
    assert window.generated_tokens is None


def test_an_engine_scraped_seldom_is_not_idle_between_scrapes():
    """A scrape every 10 s finds the tokens of all 10: nothing stood still."""
    tokens: list[float | None] = [None] * 40
    running: list[float | None] = [None] * 40
    for at in (2, 12, 22, 32):
        tokens[at], running[at] = 500.0, 8.0
    tokens[32] = 0.0
    window = summarise(
        bins_of("vllm:num_requests_running", running),
        bins_of("vllm:generation_tokens_total", tokens, counter=True),
        seconds=40,
    )
    # Live up to the scrape that found the last tokens; the bin after it may be live too.
    assert window.idle_s == pytest.approx(40 - 24)
    assert window.running_mean == pytest.approx(8 * (24 - 2) / 40)


def test_what_is_taken_at_rest():
    window = summarise(
        bins_of("vllm:num_requests_running", [8.0] * 5 + [0.0] * 5),
        bins_of("vllm:num_requests_waiting", [0.0] * 10),
        bins_of("vllm:kv_cache_usage_perc", [0.9] * 5 + [0.12] * 5),
        bins_of("vllm:generation_tokens_total", [100.0] * 5 + [0.0] * 5, counter=True),
    )
    assert window.kv_usage_idle_ratio == pytest.approx(0.12)
    assert window.idle_s == pytest.approx(5)


def test_what_is_taken_at_rest_behind_the_window():
    """An engine that is busy all through gen rests after it."""
    rows = [
        *bins_of("vllm:num_requests_running", [8.0] * 8 + [0.0] * 4),
        *bins_of("vllm:kv_cache_usage_perc", [0.9] * 8 + [0.12] * 4),
    ]
    end_ns = START + 12 * SECOND
    (window,) = summarise_engines(rows, [(START, START + 8 * SECOND)], START, SECOND, end_ns)
    assert window.kv_usage_idle_ratio == pytest.approx(0.12)
    assert window.kv_usage_max_ratio == pytest.approx(0.9)
    assert window.idle_s == 0


def test_only_bins_inside_the_windows_count():
    rows = bins_of("vllm:generation_tokens_total", [100.0] * 10, counter=True)
    windows = [(START, START + 2 * SECOND), (START + 8 * SECOND, START + 10 * SECOND)]
    (window,) = summarise_engines(rows, windows, START, SECOND)
    assert (window.seconds, window.generated_tokens) == (4, 400)


def test_nothing_reported():
    assert summarise_engines([], [(START, START + SECOND)], START, SECOND) == ()


def make_step(stage: str) -> Step:
    window = (START + SECOND, START + 5 * SECOND)
    time = StageTime(stage, 4.0, 4.0, None, *window, (), "span", (window,))
    return Step("run", 1, 1, START, START + 9 * SECOND, 9.0, "loop", (time,), 5.0, ())


def test_when_samples_are_generated():
    whole = [(START, START + 9 * SECOND)]
    gen = [(START + SECOND, START + 5 * SECOND)]
    assert rollout_windows(make_step("gen"), separate_pools=False) == gen
    assert rollout_windows(make_step("trainer_wait"), separate_pools=True) == whole
    assert rollout_windows(make_step("update_actor"), separate_pools=False) == []


def test_where_scalars_alone_tell_gen_the_replicas_lanes_tell_when():
    step = make_step("update_actor")

    def lane(role: str, stage: str, start: int, end: int) -> StageSpan:
        start_ns, end_ns = START + start * SECOND, START + end * SECOND
        return StageSpan("r", 1, 1, stage, stage, start_ns, end_ns, "t", f"{start}", role=role)

    spans = [
        lane("rollout", "gen", 1, 3),
        lane("rollout", "gen", 2, 4),
        lane("worker", "gen", 5, 6),
        lane("rollout", "update_weights", 7, 8),
    ]
    windows = rollout_windows(step, separate_pools=False, spans=spans)
    assert windows == [(START + SECOND, START + 4 * SECOND)]


def test_a_window_without_a_whole_bin_knows_nothing_of_idleness():
    rows = [
        *bins_of("vllm:num_requests_running", [8.0]),
        *bins_of("vllm:num_requests_waiting", [0.0]),
    ]
    between = (START + SECOND // 4, START + SECOND // 2)
    (window,) = summarise_engines(rows, [between], START, SECOND)
    assert window.idle_s is None
