from dataclasses import replace

import pytest

from longpole_server.analysis.architectures import describe_architecture
from longpole_server.analysis.architectures_known import find_model_config
from longpole_server.analysis.decode_bandwidth import measure_decode_bandwidth
from longpole_server.analysis.peaks import find_memory_peak
from longpole_server.model.facts import RunFacts, TrajectoryFacts
from support.steps import samples

H100 = "NVIDIA H100 80GB HBM3"
PEAK = find_memory_peak(H100) or 0.0
DENSE = find_model_config("qwen3-8b") or {}
RUN = RunFacts("run", "run", gpu_model=H100, model_config=DENSE)


def alike(count: int, tokens: int, seconds: float, prompt: int = 0) -> TrajectoryFacts:
    many = samples([seconds] * count, [tokens] * count, replicas=["a"] * count)
    return replace(many, input_tokens=[prompt] * count)


def test_weights_are_read_once_a_pass_and_the_cache_once_a_sequence():
    model = describe_architecture(DENSE)
    found = measure_decode_bandwidth(RUN, alike(16, 1000, 20.0, prompt=500), 1)
    weights = 2 * (model.weights - model.lookup_weights) * 1000
    cache = 2 * 36 * 2 * 8 * 128 * 16 * (500 * 1000 + 1000 * 1000 / 2)
    assert found.ratio == pytest.approx((weights + cache) / (20 * PEAK))
    assert found.weights_ratio == pytest.approx(weights / (weights + cache))


def test_each_engine_reads_the_weights():
    one = alike(8, 1000, 60.0)
    two = replace(one, replicas=["a"] * 4 + ["b"] * 4)
    alone, apart = (measure_decode_bandwidth(RUN, many, 2) for many in (one, two))
    assert alone.ratio is not None
    assert apart.ratio is not None
    assert alone.weights_ratio is not None
    assert apart.ratio == pytest.approx(alone.ratio * (1 + alone.weights_ratio))


def test_few_sequences_read_few_experts():
    config = find_model_config("qwen3-30b-a3b")
    assert config is not None
    run = replace(RUN, model_config=config)
    few = measure_decode_bandwidth(run, alike(1, 1000, 60.0), 1)
    many = measure_decode_bandwidth(run, alike(256, 1000, 60.0), 4)
    assert few.ratio is not None
    assert few.weights_ratio is not None
    assert many.ratio is not None
    assert many.weights_ratio is not None
    model = describe_architecture(config)
    read = few.ratio * few.weights_ratio * 60 * PEAK / 2 / 1000
    assert read == pytest.approx(model.weights - model.lookup_weights)
    all_read = many.ratio * many.weights_ratio * 4 * 60 * PEAK / 2 / 1000
    assert all_read == pytest.approx(model.num_parameters - model.lookup_weights, rel=0.01)


def test_a_window_bounds_what_is_read():
    config = find_model_config("gemma-3-12b")
    assert config is not None
    run = replace(RUN, model_config=config)
    found = measure_decode_bandwidth(run, alike(1, 4096, 200.0), 1)
    assert found.ratio is not None
    assert found.weights_ratio is not None
    full, sliding = 4096**2 / 2, 1024**2 / 2 + 3072 * 1024
    cache = 2 * 2 * 8 * 256 * (8 * full + 40 * sliding)
    assert found.ratio * (1 - found.weights_ratio) * 200 * PEAK == pytest.approx(cache)


def test_fp8_moves_half():
    many = alike(4, 1000, 60.0)
    fp8 = replace(RUN, config={"rollout.quantization": "fp8", "rollout.kv_cache_dtype": "fp8_e5m2"})
    full, half = (measure_decode_bandwidth(run, many, 1).ratio for run in (RUN, fp8))
    assert full is not None
    assert half == pytest.approx(full / 2)


@pytest.mark.parametrize(
    ("run", "many", "gpus", "reason"),
    [
        (replace(RUN, model_config=None), alike(1, 9, 9.0), 1, "configuration"),
        (replace(RUN, model_config={"model_type": "mamba"}), alike(1, 9, 9.0), 1, "mamba"),
        (RUN, alike(1, 9, 9.0), None, "number of GPUs"),
        (replace(RUN, gpu_model=None), alike(1, 9, 9.0), 1, "GPU's name"),
        (replace(RUN, gpu_model="TPU"), alike(1, 9, 9.0), 1, "`TPU`"),
        (RUN, samples([9.0], [None], replicas=["a"]), 1, "tokens"),
        (RUN, samples([9.0], [9]), 1, "replica"),
        (RUN, alike(1, 100_000, 1.0), 1, "impossible"),
        (RUN, samples([]), 1, "tokens"),
    ],
)
def test_unknown_says_why(
    run: RunFacts, many: TrajectoryFacts, gpus: int | None, reason: str
) -> None:
    found = measure_decode_bandwidth(run, many, gpus)
    assert found.ratio is None
    assert reason in (found.reason or "")
