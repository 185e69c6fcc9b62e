from collections.abc import Mapping
from dataclasses import replace

import pytest

from longpole_server.analysis.ledger import assemble_step
from longpole_server.analysis.mfu import measure_mfu
from longpole_server.analysis.peaks import find_peak
from longpole_server.model.facts import GpuWindow, RunFacts, StepFacts
from support.steps import inputs, timers

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
H100 = "NVIDIA H100 80GB HBM3"
PEAK = find_peak(H100) or 0.0
RUN = RunFacts("run", "run", gpu_count=8, gpu_model=H100, model_config=QWEN)
SECONDS = {"gen": 0.5, "old_log_prob": 0.03, "ref": 0.03, "update_actor": 0.1}


def step_of(
    run: RunFacts, scalars: Mapping[str, float] | None = None, lengths: tuple[int, ...] = ()
) -> StepFacts:
    logged = timers(SECONDS) | dict(scalars or {})
    step = assemble_step(inputs((), logged, run=run, sequence_lengths=lengths or LENGTHS))
    return StepFacts(step, logged)


def test_the_same_work_over_the_stage_the_forward_passes_and_the_step():
    figures = measure_mfu(RUN, [step_of(RUN)], "sync")
    work_s = FLOPS / (8 * PEAK)
    assert figures["step"].value == pytest.approx(work_s / 0.66)
    assert figures["actor_stage"].value == pytest.approx(work_s / 0.1)
    assert figures["infer"].value == pytest.approx(2 * work_s / 3 / 0.06)
    assert {figures[name].source for name in ("step", "actor_stage", "infer")} == {"computed"}
    assert figures["actor"].value is None
    assert figures["actor"].reason == "not reported by the trainer"


def test_epochs_count_for_training_only():
    twice = replace(RUN, config={"actor_rollout_ref.actor.ppo_epochs": "2"})
    once, both = (measure_mfu(run, [step_of(run)], "sync") for run in (RUN, twice))
    assert both["actor_stage"].value == pytest.approx(2 * (once["actor_stage"].value or 0))
    assert both["infer"].value == pytest.approx(once["infer"].value)


def test_what_the_trainer_reports_comes_first():
    figures = measure_mfu(
        RUN, [step_of(RUN, {"perf/mfu/actor": 0.42, "perf/mfu/actor_infer": 0.33})], "sync"
    )
    assert (figures["actor"].value, figures["actor"].source) == (0.42, "reported")
    assert (figures["infer"].value, figures["infer"].source) == (0.33, "reported")


def test_an_impossible_report_is_computed_again():
    facts = step_of(RUN, {"perf/mfu/actor": 1.018})
    figures = measure_mfu(RUN, [facts], "sync")
    assert figures["actor"].value == figures["actor_stage"].value
    assert figures["actor"].source == "computed"
    assert "1.018" in (figures["actor"].reason or "")
    (note,) = facts.step.notes
    assert note.code == "mfu.impossible"
    assert note.summary.endswith("Computed over the whole stage it is 0.211.")
    unknown = replace(RUN, gpu_model=None)
    alone = measure_mfu(unknown, [step_of(unknown, {"perf/mfu/actor": 1.018})], "sync")["actor"]
    assert alone.value is None
    assert alone.reason is not None
    assert alone.reason.endswith("impossible, and the GPU's name is not reported")


def test_a_reported_zero_means_unknown():
    figures = measure_mfu(RUN, [step_of(RUN, {"perf/mfu/actor": 0.0})], "sync")
    assert figures["actor"].value is None
    assert "reports 0" in (figures["actor"].reason or "")


def test_a_computed_mfu_above_one_is_flagged_and_not_used():
    small = replace(RUN, gpu_count=1, gpu_model="NVIDIA L4")
    facts = step_of(small)
    assert [(note.code, note.metric) for note in facts.step.notes] == [
        ("mfu.impossible", "mfu_step")
    ]
    figures = measure_mfu(small, [facts], "sync")
    assert all(figures[name].value is None for name in figures)
    assert "impossible" in (figures["step"].reason or "")


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (replace(RUN, model_config=None), "the model's configuration is not reported"),
        (
            replace(RUN, model_config=None, model_name="own-7b"),
            "the model's configuration is not reported, and `own-7b` is no well-known model",
        ),
        (replace(RUN, gpu_model=None), "the GPU's name is not reported"),
        (replace(RUN, gpu_model="TPU"), "the peak rate of `TPU` is not known"),
        (replace(RUN, gpu_count=None), "the number of GPUs is not reported"),
        (
            replace(RUN, gpu_model=None, model_config={"model_type": "mamba"}),
            "no FLOPs formula for model type `mamba` and the GPU's name is not reported",
        ),
    ],
)
def test_unknown_says_what_is_missing(run: RunFacts, reason: str):
    figures = measure_mfu(run, [step_of(run)], "sync")
    for name in ("step", "actor_stage", "infer"):
        assert figures[name].value is None
        assert figures[name].reason == reason


def test_tokens_are_missing():
    logged = timers(SECONDS)
    nothing = StepFacts(assemble_step(inputs((), logged, run=RUN)), logged)
    assert measure_mfu(RUN, [nothing], "sync")["step"].reason == "tokens are not reported"
    logged = logged | {"perf/total_num_tokens": 1000.0}
    total_only = StepFacts(assemble_step(inputs((), logged, run=RUN)), logged)
    reason = measure_mfu(RUN, [total_only], "sync")["step"].reason
    assert reason == "sequence lengths are not reported"


def test_a_stage_without_time():
    scalars = {"timing_s/gen": 0.5, "timing_s/step": 0.6}
    step = assemble_step(inputs((), scalars, run=RUN, sequence_lengths=LENGTHS))
    figures = measure_mfu(RUN, [StepFacts(step, scalars)], "sync")
    assert figures["step"].value is not None
    assert figures["actor_stage"].reason == "the time of update_actor is not reported"


def test_on_pools_of_its_own_the_trainer_holds_some_of_the_gpus():
    facts = step_of(RUN)
    unknown = measure_mfu(RUN, [facts], "fully_async")
    assert unknown["step"].value is not None
    assert unknown["actor_stage"].reason == "which of the run's GPUs train is not known"
    apart = replace(facts, gpu_windows=[GpuWindow("update_actor", "trainer", 4, 0.1)])
    known = measure_mfu(RUN, [apart], "fully_async")
    together = measure_mfu(RUN, [facts], "sync")
    assert known["actor_stage"].value == pytest.approx(2 * (together["actor_stage"].value or 0))


def test_no_step():
    figures = measure_mfu(RUN, [], "sync")
    assert all(figure.value is None and figure.reason for figure in figures.values())


def test_before_the_first_step_ends_nothing_of_the_run_is_called_missing():
    run = RunFacts("run", "run", gpu_count=16, gpu_model="NVIDIA H200", model_name="x/y")
    reason = measure_mfu(run, [], None)["step"].reason
    assert reason is not None
    assert reason.endswith("no step has ended")
    assert "number of GPUs" not in reason
