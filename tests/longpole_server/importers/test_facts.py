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
        for step, gpus in enumerate([8, 8.5, 3.3, 12.2], start=1)
    )
    facts = import_facts(source(text), "x")
    assert facts.run.gpu_count is None
    assert [note.code for note in facts.notes] == ["gpus.contradiction"]


@pytest.mark.parametrize(
    "text", ["", "\n\n", "INFO nothing\n", "step:0 - val-core/a/acc:0.5\n", "{}\n"]
)
def test_a_log_without_a_complete_step_is_refused(text: str) -> None:
    with pytest.raises(UnreadableLogError, match="no complete training step"):
        import_facts(source(text), "x")


@pytest.mark.parametrize(
    ("extra", "mode"),
    [
        ({"fully_async/count/staleness_samples": 1.0}, "fully_async"),
        ({"timing_s/sync_rollout_weights": 1.0}, "one_step_off"),
        ({"separate_async/switch/idle": 1.0}, "separate_async"),
        ({}, "sync"),
    ],
)
def test_the_mode_is_read_off_the_keys(extra: dict[str, float], mode: str) -> None:
    assert import_facts(source(line(1, **extra)), "x").run.mode == mode
