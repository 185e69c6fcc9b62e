"""The report says everything once, fits a terminal, and shows what the document holds."""

from pathlib import Path
from typing import Any

import pytest

from longpole_server.cli.report import WIDTH, render_report
from longpole_server.diagnosis import diagnose, diagnosis_document
from longpole_server.importers import LogSource, import_facts
from longpole_server.model.facts import RunFacts
from support import verl_logs
from support.steps import facts

DATA = Path(__file__).parents[2] / "data"


def document_of(name: str) -> dict[str, Any]:
    facts = import_facts(LogSource.of_file(DATA / name), "import/x")
    return diagnosis_document(diagnose(facts.run, facts.steps))


def document_of_kind(kind: str) -> dict[str, Any]:
    text = "".join(f"{line}\n" for line in verl_logs.console_lines(verl_logs.log_calls(kind)))
    facts = import_facts(LogSource.of_bytes("run.log", text.encode(), 0), "import/x")
    return diagnosis_document(diagnose(facts.run, facts.steps))


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("verl_*")))
def test_lines_fit_and_no_sentence_is_said_twice(name: str) -> None:
    text = render_report(document_of(name))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text == "\n".join(line.rstrip() for line in text.splitlines())
    sentences = [part.strip() for part in " ".join(text.split()).split(". ") if len(part) > 40]
    assert len(sentences) == len(set(sentences))
    assert text.count("does not know the model") <= 1


def test_columns_of_the_evidence_are_aligned() -> None:
    text = render_report(document_of("verl_console_long_tail.log"))
    block = text.partition("Proof\n")[2].partition("\n\n")[0].splitlines()
    assert len({line.index(", ") for line in block if ", scalars" in line}) <= 3
    assert len({line.find("limit") for line in block if "limit" in line}) == 1


def test_the_cause_behind_an_asynchronous_verdict_is_named() -> None:
    text = render_report(document_of_kind("one_step_off"))
    assert "VERDICT  async.trainer_starved, because of rollout.long_tail" in text


def test_the_answer_stands_first_then_proof_what_to_try_and_what_is_not_known() -> None:
    text = render_report(document_of("verl_console_long_tail.log"))
    assert text.startswith("The rollout waits for a few long samples")
    heads = ("VERDICT  rollout.long_tail", "Proof", "Try first", "Not known", "Where the")
    places = [text.index(f"\n{head}") for head in heads]
    assert places == sorted(places)
    assert "data.max_response_length" in text
    assert "trajectories: samples with their times and tokens" in text


def test_what_it_gives_back_has_a_range_and_a_formula() -> None:
    document = document_of("verl_console_long_tail.log")
    assert "(0.0 s to 83.5 s), 93.6 GPU-hours a day" in render_report(document)
    document["recoverable_s_per_step"] = document["recoverable_s_per_step_range"] = None
    assert "earlier gen would end" in render_report(document)


def test_nothing_to_gain_is_said_in_words() -> None:
    document = document_of("verl_console_long_tail.log")
    document["recoverable_s_per_step"], document["recoverable_s_per_step_range"] = 0.0, [0.0, 0.0]
    document["recoverable_formula"] = "nothing by tuning"
    assert "Gain     nothing by tuning\n" in render_report(document)


def test_no_inner_measurement_is_claimed_where_no_side_dominates() -> None:
    text = render_report(document_of("verl_file_balanced.jsonl"))
    assert "Sure     low: shares alone say so" in text
    assert "inner measurement" not in text


def test_an_outlier_does_not_stretch_the_ledger() -> None:
    usual = {"gen": 20.0, "update_actor": 60.0}
    run = RunFacts("run", "run", gpu_count=16)
    steps = [
        facts(usual | ({"gen": 4900.0} if number == 7 else {}), run=run, step=number)
        for number in range(1, 11)
    ]
    text = render_report(diagnosis_document(diagnose(run, steps)))
    rows = [line.split() for line in text.splitlines() if line.startswith("  update_actor ")]
    assert [row[1] for row in rows] == ["60.0"]


def test_what_changed_within_the_run_is_told_in_parts() -> None:
    document = document_of("verl_console_long_tail.log")
    document["decomposition"] = {
        "quantity": "tokens_per_s",
        "before": {"from": 2, "to": 4},
        "after": {"from": 5, "to": 8},
        "log_change": -0.5,
        "parts": [
            part("stage", "gen", -0.45, 10.0, 16.0),
            part("outside", "testing", -0.05, 1.0, 2.0),
            part("gpus", "gpus", None, None, None),
        ],
    }
    text = render_report(document)
    assert "Throughput of steps 5 to 8 against 2 to 4: x 0.607" in text
    assert "gen               x 0.638  10.00 s to 16.00 s" in text
    assert "testing, between steps" in text


def part(
    kind: str, name: str, log_change: float | None, before: float | None, after: float | None
) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": name,
        "unit": "s",
        "before": before,
        "after": after,
        "log_change": log_change,
        "reason": None,
    }


def test_what_runs_between_steps_stands_apart() -> None:
    text = render_report(document_of_kind("0.6"))
    (line,) = [line for line in text.splitlines() if "testing" in line]
    assert "12.0 s" in line
    assert "between steps" in line


def test_steps_that_disagree_with_their_window_are_counted() -> None:
    document = document_of("verl_console_long_tail.log")
    document["steps"][0]["verdict"] = "balanced"
    assert "Of 7 steps alone, 6 say the same (others: balanced 1)." in render_report(document)


def test_more_evidence_than_fits_is_counted() -> None:
    document = document_of("verl_console_long_tail.log")
    document["evidence"] = document["evidence"] * 4
    assert "and 12 more with --json" in render_report(document)


def test_a_terminal_without_blocks_gets_bars_of_ascii() -> None:
    text = render_report(document_of("verl_console_long_tail.log"), "ascii")
    assert "#####################" in text
    assert text.isascii()


def test_a_run_without_a_closed_step_has_a_report() -> None:
    text = render_report(diagnosis_document(diagnose(RunFacts("run", "my run"), [])))
    assert "my run" in text
    assert "VERDICT  none" in text
    assert "nothing to judge" in text
