"""A log becomes facts: every step once, GPUs derived and cross-checked, bounded memory."""

from pathlib import Path

import pytest

from longpole_server.errors import UnreadableLogError
from longpole_server.importers import LogSource, import_facts

DATA = Path(__file__).parents[2] / "data"


def source(text: str, name: str = "train.log") -> LogSource:
    return LogSource.of_bytes(name, text.encode(), modified_ns=1_000_000_000_000)


def line(step: int, seconds: float = 10.0, **extra: float) -> str:
    scalars = {"timing_s/step": seconds, "timing_s/gen": seconds * 0.8, **extra}
    return (
        " - ".join([f"step:{step}", *(f"{key}:{value}" for key, value in scalars.items())]) + "\n"
    )


def test_validation_before_training_is_no_step() -> None:
    facts = import_facts(LogSource.of_file(DATA / "verl_console_long_tail.log"), "import/x")
    assert [fact.step.step for fact in facts.steps] == list(range(1, 9))
    assert facts.run.gpu_count == 16
    assert facts.run.mode == "sync"


def test_of_a_resumed_run_each_step_counts_once_in_its_latest_attempt() -> None:
    text = line(1) + line(2) + line(3) + line(2, 20.0) + line(3, 20.0)
    facts = import_facts(source(text), "import/x")
    assert [(fact.step.step, fact.step.attempt) for fact in facts.steps] == [(1, 1), (2, 2), (3, 2)]
    assert [note.code for note in facts.notes] == ["run.resumed"]


def test_a_torn_last_step_is_not_judged() -> None:
    facts = import_facts(
        source(line(1) + line(2) + "step:3 - timing_s/step:10.0 - timing_s/ge"), "x"
    )
    assert [fact.step.step for fact in facts.steps] == [1, 2]
    assert [note.code for note in facts.notes] == ["line.torn"]


def test_only_so_many_steps_are_kept_and_the_rest_is_named() -> None:
    facts = import_facts(source("".join(line(step) for step in range(1, 31))), "x", max_steps=10)
    assert [fact.step.step for fact in facts.steps] == list(range(21, 31))
    assert [note.code for note in facts.notes] == ["log.window"]


def test_gpus_that_contradict_each_other_are_a_note_and_not_a_number() -> None:
    figures = {"perf/total_num_tokens": 1000.0}
    text = "".join(
        line(step, **figures, **{"perf/throughput": 1000.0 / (10.0 * gpus)})
        for step, gpus in enumerate([8, 12, 3, 20], start=1)
    )
    facts = import_facts(source(text), "x")
    assert facts.run.gpu_count is None
    assert [note.code for note in facts.notes] == ["gpus.contradiction"]


def test_a_contradiction_is_said_once() -> None:
    text = "".join(
        line(step, **{"perf/total_num_tokens": 1000.0, "perf/throughput": 1000.0 / (10.0 * gpus)})
        for step, gpus in enumerate([8.5, 12.5, 3.5, 20.5], start=1)
    )
    facts = import_facts(source(text), "x")
    assert facts.notes == ()
    assert {note.code for fact in facts.steps for note in fact.step.notes} == {"gpus.contradiction"}


def test_throughput_that_is_nan_or_tiny_breaks_no_gpu_count() -> None:
    for throughput in ("nan", "inf", "0.0", "1e-320", "-5.0"):
        figures = f"perf/total_num_tokens:1e300 - perf/throughput:{throughput}"
        text = f"step:1 - timing_s/gen:8 - timing_s/step:10 - {figures}\n"
        assert import_facts(source(text), "x").run.gpu_count is None


def test_validation_before_a_resumed_training_does_not_replace_the_step() -> None:
    text = "".join(line(step) for step in range(1, 9))
    text += "step:2 - val-core/a/acc/mean@1:0.5\n" + line(3, 20.0) + line(4, 20.0)
    facts = import_facts(source(text), "x")
    attempts = {fact.step.step: fact.step.attempt for fact in facts.steps}
    assert attempts == {1: 1, 2: 1, 3: 2, 4: 2, 5: 1, 6: 1, 7: 1, 8: 1}


def test_a_late_line_of_a_background_task_is_no_resume_and_loses_nothing() -> None:
    text = "".join(line(step) for step in range(1, 9))
    text += "step:2 - val-core/a/acc/mean@1:0.5\n" + line(9)
    facts = import_facts(source(text), "x")
    assert facts.notes == ()
    assert facts.steps[1].scalars["val-core/a/acc/mean@1"] == 0.5
    assert facts.steps[1].step.duration_s == 10.0


def test_a_log_twice_in_one_file_counts_every_step_once() -> None:
    once = "".join(line(step) for step in range(1, 9))
    facts = import_facts(source(once + once), "x")
    assert [fact.step.step for fact in facts.steps] == list(range(1, 9))


def test_the_first_versions_of_verl_log_no_step_time_and_are_judged_by_its_stages() -> None:
    text = "".join(
        f"step:{step} - timing/gen:8.0 - timing/update_actor:2.0 - mfu/actor:0.4\n"
        for step in (1, 2)
    )
    facts = import_facts(source(text), "x")
    assert [fact.step.duration_s for fact in facts.steps] == [10.0, 10.0]
    assert [note.code for note in facts.notes] == ["step.summed"]


def test_an_empty_log_is_called_empty() -> None:
    with pytest.raises(UnreadableLogError, match=r"train\.log is empty"):
        import_facts(source(""), "x")


def test_a_log_of_steps_without_times_says_so() -> None:
    text = "step:1 - train/loss:0.5 - train/total_tokens(B):1.5\n" * 3
    with pytest.raises(UnreadableLogError, match="none of its 3 step lines says how long"):
        import_facts(source(text), "x")


@pytest.mark.parametrize(
    "text", ["\n\n", "INFO nothing\n", "step:0 - val-core/a/acc:0.5\n", "{}\n"]
)
def test_a_log_without_a_complete_step_is_refused(text: str) -> None:
    with pytest.raises(UnreadableLogError, match=r"no (complete )?training step"):
        import_facts(source(text), "x")


@pytest.mark.parametrize(
    ("extra", "mode"),
    [
        ({"fully_async/count/staleness_samples": 1.0}, "fully_async"),
        ({"timing_s/sync_rollout_weights": 1.0}, "one_step_off"),
        ({"separate_async/switch/idle": 1.0}, "separate_async"),
        ({}, "sync"),
        ({"training/off_policy/trajectory_staleness_worst/max": 0.0}, "sync"),
        ({"training/off_policy/trajectory_staleness_worst/max": 2.0}, None),
    ],
)
def test_the_mode_is_read_off_the_keys(extra: dict[str, float], mode: str | None) -> None:
    assert import_facts(source(line(1, **extra)), "x").run.mode == mode
