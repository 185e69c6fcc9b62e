from dataclasses import replace

import pytest

from longpole_server.analysis.architectures_known import find_model_config
from longpole_server.diagnosis import diagnose_step
from longpole_server.diagnosis.engines import measure_engines
from longpole_server.model.diagnosis import Diagnosis
from longpole_server.model.facts import EngineWindow, RunFacts
from support.steps import facts, samples

RUN = RunFacts("run", "run", system="verl", gpu_count=16)
LONG_GEN = {"gen": 100.0, "old_log_prob": 8.0, "update_actor": 30.0, "update_weights": 4.0}
BUSY = EngineWindow(
    "replica-0",
    100.0,
    kv_usage_mean_ratio=0.5,
    kv_usage_max_ratio=0.7,
    running_mean=60.0,
    running_max=64.0,
    waiting_mean=0.0,
    preemptions=0.0,
    generated_tokens=300_000.0,
    prompt_tokens=20_000.0,
    idle_s=2.0,
)


def judge(*windows: EngineWindow, scalars: dict[str, float] | None = None) -> Diagnosis:
    step = replace(facts(LONG_GEN, scalars, run=RUN), engine_windows=windows)
    return diagnose_step(RUN, step)


def test_nobody_reported():
    assert measure_engines([]) is None
    assert measure_engines([EngineWindow("replica-0", 0.0)]) is None


def test_unknown_stays_unknown():
    engines = measure_engines([EngineWindow("replica-0", 100.0)])
    assert engines is not None
    assert engines.kv_max_ratio is None
    assert engines.tokens_per_s is None
    assert engines.fill_ratio is None


def test_replicas_together():
    engines = measure_engines([BUSY, replace(BUSY, replica="replica-1", kv_usage_max_ratio=0.9)])
    assert engines is not None
    assert engines.kv_max_ratio == 0.9
    assert engines.generated_tokens == 600_000
    assert engines.tokens_per_s == pytest.approx(6000)
    assert engines.tokens_per_s_per_request == pytest.approx(50)
    assert engines.fill_ratio == pytest.approx(60 / 64)
    assert engines.busy_s == 98


def test_a_queue_beside_an_idle_replica():
    queued = replace(BUSY, queued_s=70.0, idle_s=0.0)
    idle = replace(BUSY, replica="replica-1", queued_s=0.0, idle_s=60.0)
    engines = measure_engines([queued, idle])
    assert engines is not None
    assert engines.queue_beside_idle_s == pytest.approx(30)
    diagnosis = judge(queued, idle)
    assert (diagnosis.verdict, diagnosis.confidence) == ("rollout.imbalance", "high")
    assert "replica-0" in diagnosis.summary


def test_a_queue_before_idle_time_is_none_beside_it():
    engines = measure_engines(
        [replace(BUSY, queued_s=30.0), replace(BUSY, replica="replica-1", idle_s=60.0)]
    )
    assert engines is not None
    assert engines.queue_beside_idle_s == 0


def test_slots_that_empty_are_a_long_tail():
    lengths = {"response_length/mean": 2000.0, "response_length/max": 9000.0}
    diagnosis = judge(replace(BUSY, running_mean=20.0), scalars=lengths)
    assert (diagnosis.verdict, diagnosis.confidence) == ("rollout.long_tail", "medium")
    assert "engines" in diagnosis.sources.used
    assert diagnosis.sources.not_reported == ("trajectories", "agent_loop")


def test_full_slots_that_decode_slowly_are_a_slow_engine():
    slow = replace(BUSY, generated_tokens=60_000.0)
    diagnosis = judge(slow)
    assert (diagnosis.verdict, diagnosis.confidence) == ("rollout.engine", "high")
    assert diagnosis.recoverable_s_per_step == pytest.approx(100 * (1 - 10 / 30))
    low, high = diagnosis.recoverable_s_per_step_range or (0, 0)
    assert low < high


@pytest.mark.parametrize(
    ("kv_max", "verdict"), [(0.99, "rollout.preemption"), (0.5, "rollout.unexplained")]
)
def test_preemption_needs_a_full_cache(kv_max: float, verdict: str):
    window = replace(
        BUSY, kv_usage_max_ratio=kv_max, preemptions=60.0, waiting_mean=4.0, running_mean=30.0
    )
    lengths = {"response_length/mean": 3000.0, "prompt_length/mean": 200.0}
    assert judge(window, scalars=lengths).verdict == verdict


def test_tokens_computed_again_count_as_the_engine_counts_them():
    window = replace(BUSY, kv_usage_max_ratio=0.99, recomputed_tokens=60_000.0)
    diagnosis = judge(window)
    assert diagnosis.verdict == "rollout.preemption"
    assert diagnosis.recoverable_s_per_step == pytest.approx(100 * 0.2 / 1.2)


def test_a_full_cache_without_preemption_is_pressure():
    diagnosis = judge(replace(BUSY, kv_usage_max_ratio=0.98))
    assert "kv.pressure" in {finding.code for finding in diagnosis.findings}
    assert diagnosis.verdict != "rollout.preemption"


DENSE = replace(
    RUN,
    gpu_count=2,
    gpu_model="NVIDIA H100 80GB HBM3",
    model_config=find_model_config("qwen3-8b"),
)


@pytest.mark.parametrize(
    ("tokens", "confidence", "effect"),
    [(3_300, "medium", "supports"), (6_000, "low", "contradicts")],
)
def test_memory_that_decoding_leaves_unused(tokens: int, confidence: str, effect: str):
    # 16 samples at once: at 33 tokens/s each, weights are read at a fifth of what memory can.
    many = samples([98.0] * 32, [tokens] * 32, replicas=["a", "b"] * 16)
    step = replace(facts(LONG_GEN, run=DENSE), trajectories=many)
    diagnosis = diagnose_step(DENSE, step)
    assert (diagnosis.verdict, diagnosis.confidence) == ("rollout.engine", confidence)
    rows = {row.metric: row for row in diagnosis.evidence}
    assert rows["rollout/decode_bandwidth_ratio"].effect == effect
    assert "engines" in diagnosis.sources.not_reported
