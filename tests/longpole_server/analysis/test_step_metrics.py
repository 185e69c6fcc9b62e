import pytest

from longpole_server.analysis.ledger import assemble_step
from longpole_server.analysis.peaks import find_peak
from longpole_server.model.facts import RunFacts
from support.steps import inputs, loop, timers

QWEN = {
    "model_type": "qwen2",
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
}
LENGTHS = [512, 1024, 2048]
FLOPS = 167073690943488


def run(**values: object) -> RunFacts:
    return RunFacts("run", "run", **values)  # pyright: ignore[reportArgumentType]


def test_throughput_as_verl_tests_it():
    scalars = timers({"gen": 1.0}, 2.0) | {"perf/total_num_tokens": 600.0}
    for gpus, expected in ((1, 300.0), (2, 150.0)):
        step = assemble_step(inputs((), scalars, run=run(gpu_count=gpus)))
        assert step.throughput_tokens_per_s_per_gpu == expected


def test_gpu_count_is_derived():
    scalars = timers({"gen": 60.0}, 100.0) | {
        "perf/total_num_tokens": 800_000.0,
        "perf/throughput": 500.0,
    }
    step = assemble_step(inputs((), scalars))
    assert step.gpu_count == 16
    assert step.notes == ()


@pytest.mark.parametrize(("declared", "throughput"), [(8, 500.0), (None, 540.0)])
def test_gpu_count_contradicts(declared: int | None, throughput: float):
    scalars = timers({"gen": 60.0}, 100.0) | {
        "perf/total_num_tokens": 800_000.0,
        "perf/throughput": throughput,
    }
    step = assemble_step(inputs((), scalars, run=run(gpu_count=declared)))
    assert [note.code for note in step.notes] == ["gpus.contradiction"]
    assert step.gpu_count == declared


def test_data_parallel_size_contradicts():
    scalars = timers({"gen": 60.0}, 100.0) | {
        "perf/total_num_tokens": 800_000.0,
        "global_seqlen/mean": 300_000.0,
    }
    step = assemble_step(inputs((), scalars))
    assert [note.code for note in step.notes] == ["dp.contradiction"]


@pytest.mark.parametrize(
    ("reported", "kept", "notes"),
    [
        (0.38, 0.38, []),
        (0.0, None, ["mfu.unknown"]),
        (1.018, 1.018, ["mfu.impossible"]),
        (-0.1, -0.1, ["mfu.impossible"]),
        (float("nan"), None, []),
    ],
)
def test_reported_mfu(reported: float, kept: float | None, notes: list[str]):
    step = assemble_step(inputs((), timers({"gen": 1}, 2) | {"perf/mfu/actor": reported}))
    assert step.mfu_actor == kept
    assert [note.code for note in step.notes] == notes


def test_mfu_of_the_step_counts_epochs_and_all_gpus():
    known = run(
        model_config=QWEN,
        gpu_model="NVIDIA H100 80GB HBM3",
        gpu_count=8,
        config={"actor_rollout_ref.actor.ppo_epochs": "2"},
    )
    step = assemble_step(inputs([loop(0, 10)], run=known, sequence_lengths=LENGTHS))
    peak = find_peak("NVIDIA H100 80GB HBM3")
    assert peak is not None
    assert step.mfu_step == pytest.approx(2 * FLOPS / (10 * 8 * peak))
    assert step.tokens_total == sum(LENGTHS)


def test_mfu_of_the_step_from_mean_lengths():
    known = run(model_config=QWEN, gpu_model="NVIDIA H100 80GB HBM3", gpu_count=8)
    scalars = {
        "perf/total_num_tokens": float(sum(LENGTHS)),
        "prompt_length/mean": 200.0,
        "response_length/mean": sum(LENGTHS) / 3 - 200.0,
    }
    exact = assemble_step(inputs([loop(0, 10)], run=known, sequence_lengths=LENGTHS))
    estimated = assemble_step(inputs([loop(0, 10)], scalars, run=known))
    assert estimated.mfu_step is not None
    assert exact.mfu_step is not None
    assert estimated.mfu_step == pytest.approx(exact.mfu_step, rel=0.02)
    assert estimated.mfu_step < exact.mfu_step


@pytest.mark.parametrize(
    "unknown",
    [
        run(model_config=QWEN, gpu_count=8),
        run(gpu_model="NVIDIA H100 80GB HBM3", gpu_count=8),
        run(model_config=QWEN, gpu_model="NVIDIA H100 80GB HBM3"),
    ],
)
def test_mfu_of_the_step_is_unknown_not_zero(unknown: RunFacts):
    step = assemble_step(inputs([loop(0, 10)], run=unknown, sequence_lengths=LENGTHS))
    assert step.mfu_step is None


@pytest.mark.parametrize(
    ("scalars", "lengths", "expected"),
    [
        # verl: means of a batch, and all tokens.
        (
            {
                "perf/total_num_tokens": 800_000.0,
                "prompt_length/mean": 300.0,
                "response_length/mean": 500.0,
                "response_length/max": 4_000.0,
            },
            (),
            (500_000, 500.0, 4_000.0),
        ),
        # prime-rl counts both.
        ({"progress/output_tokens": 70_000.0}, (), (70_000, None, None)),
        # TRL logs lengths alone.
        (
            {"completions/mean_length": 200.0, "completions/max_length": 900.0},
            (),
            (None, 200.0, 900.0),
        ),
        # Samples tell themselves.
        ({"response_length/mean": 1.0}, (100, 200, 600), (900, 300.0, 600.0)),
        # A maximum below the mean is of something else.
        (
            {"completions/mean_length": 200.0, "completions/max_length": 90.0},
            (),
            (None, 200.0, None),
        ),
        ({"response_length/mean": float("nan")}, (), (None, None, None)),
    ],
)
def test_responses(scalars: dict[str, float], lengths: tuple[int, ...], expected: object):
    logged = timers({"gen": 60.0}, 100.0) | scalars
    step = assemble_step(inputs((), logged, response_lengths=lengths))
    found = (step.tokens_response, step.response_length_mean, step.response_length_max)
    assert found == expected
