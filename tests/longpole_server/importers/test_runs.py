"""Several logs of one run are read as one."""

from pathlib import Path

import pytest

from longpole_server.errors import UnreadableLogError
from longpole_server.importers import LogSource, import_facts, import_records

LOGS = Path(__file__).parents[2] / "data" / "logs"


def sources(*names: str) -> list[LogSource]:
    # All of one year: vLLM's times leave it out.
    return [LogSource.of_bytes(n, (LOGS / n).read_bytes(), 1_795_970_800 * 10**9) for n in names]


def test_an_engines_lines_belong_to_the_step_that_ran_then() -> None:
    facts = import_facts(sources("openrlhf_console.log", "vllm_engine.log"), "x")
    first, second = facts.steps
    # Step 1 ended at 16:42:00 and took 87 s, step 2 at 16:43:26.
    assert [window.running_max for window in first.engine_windows] == [24.0]
    assert [window.running_max for window in second.engine_windows] == [30.0]
    assert first.engine_windows[0].preemptions == 3.0
    assert first.engine_windows[0].seconds == 41.75


def test_the_order_of_the_logs_does_not_matter() -> None:
    names = ("openrlhf_console.log", "vllm_engine.log", "sglang_engine.log")
    facts = import_facts(sources(*names), "x")
    assert import_facts(sources(*names[::-1]), "x").steps == facts.steps
    assert len(facts.steps[0].engine_windows) == 3


def test_without_times_on_one_clock_engines_lines_are_not_used() -> None:
    facts = import_facts(sources("prime_rl_trainer.jsonl", "vllm_engine.log"), "x")
    assert not any(step.engine_windows for step in facts.steps)
    assert "engine.unaligned" in [note.code for note in facts.notes]


def test_engines_alone_are_refused() -> None:
    with pytest.raises(UnreadableLogError, match="no trainer's log"):
        import_facts(sources("vllm_engine.log", "sglang_engine.log"), "x")


def test_engines_series_lie_on_the_time_axis_and_counts_add_up() -> None:
    batches = list(import_records(sources("openrlhf_console.log", "vllm_engine.log"), "x"))
    (start,) = batches[0].run_starts
    assert start.time_estimated
    samples = [sample for batch in batches for sample in batch.engine_samples]
    running = [s for s in samples if s.name == "vllm:num_requests_running"]
    assert [sample.ts_ns // 10**9 for sample in running] == [
        1_795_970_470,
        1_795_970_480,
        1_795_970_490,
        1_795_970_570,
    ]
    assert {sample.value for sample in samples if "preemptions" in sample.name} == {3.0}


def test_batches_are_the_same_for_the_same_content() -> None:
    names = ("slime_console.log", "sglang_engine.log")
    assert list(import_records(sources(*names), "x")) == list(import_records(sources(*names), "x"))
