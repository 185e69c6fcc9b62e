from dataclasses import replace

from longpole_dashboards.components.verdict import (
    decision_table,
    evidence_table,
    findings_list,
    folded_evidence,
    verdict_card,
    with_code,
)
from longpole_dashboards.verdicts import VERDICT_KINDS
from longpole_server.model.diagnosis import Diagnosis
from longpole_server.model.step import Note
from support.dashboard_components import find_all, words
from support.dashboard_fake_service import ASYNC_RUN, LIVE_RUN, FakeService

NOW_NS = 1_760_000_000 * 10**9


def diagnose(run_id: str = LIVE_RUN) -> Diagnosis:
    return FakeService(NOW_NS).diagnose(run_id)


def test_the_card_says_what_how_sure_and_what_it_would_give_back() -> None:
    shown = words(verdict_card(diagnose()))
    assert "The rollout waits for a few long samples" in shown
    assert "high confidence" in shown
    assert "≈ 21.4 s a step" in shown
    assert "GPU-hours a day" in shown
    assert "steps 11–30" in shown


def test_a_second_level_cause_is_named() -> None:
    assert "because:" in words(verdict_card(diagnose(ASYNC_RUN)))


def test_before_the_first_step_there_is_no_verdict_and_no_promise() -> None:
    empty = replace(
        diagnose(),
        verdict=None,
        confidence=None,
        num_judged=0,
        first_step=None,
        last_step=None,
        recoverable_s_per_step=None,
        summary="No step has been judged yet.",
    )
    shown = words(verdict_card(empty))
    assert "No verdict yet" in shown
    assert "could give back" not in shown


def test_evidence_speaks_for_or_against() -> None:
    table = evidence_table(diagnose().evidence)
    assert len(find_all(table, "lp-effect-supports")) == 5
    assert len(find_all(table, "lp-effect-contradicts")) == 1
    assert "threshold 40.0 %" in words(table)
    assert "No evidence yet" in words(evidence_table(()))


def test_findings_come_severest_first_and_once() -> None:
    note = Note("line.torn", "critical", "The last line is torn.")
    shown = findings_list(diagnose().findings, (note, note))
    severities = [words(found) for found in find_all(shown, "lp-severity")]
    assert severities == ["critical", "warning", "info"]


def test_the_decision_table_holds_every_verdict_and_marks_this_one() -> None:
    table = decision_table("rollout.long_tail")
    (row,) = find_all(table, "lp-current")
    assert "rollout.long_tail" in words(row)
    assert all(kind.code in words(table) for kind in VERDICT_KINDS)


def test_backticks_are_set_as_code() -> None:
    shown = with_code("Send trajectories (`longpole.trajectory`) first.")
    assert words(shown).split()[-2:] == [")", "first."]
    assert str(shown[1]) == "Code('longpole.trajectory')"


def test_what_to_try_first_stands_with_the_sentence() -> None:
    diagnosis = diagnose()
    card = verdict_card(diagnosis)
    (line,) = find_all(card, "lp-verdict-try")
    first = diagnosis.next[0]
    assert first.text.replace("`", "") in words(line).replace("`", "")
    assert all(key in words(line) for key in first.keys)
    assert not find_all(verdict_card(replace(diagnosis, next=())), "lp-verdict-try")


def test_the_sentence_does_not_repeat_its_title() -> None:
    title = "The rollout waits for a few long samples"
    told = replace(diagnose(), summary=f"{title}: gen takes 71 % of each step.")
    shown = words(verdict_card(told))
    assert shown.count(title) == 1
    assert "Gen takes 71 % of each step." in shown
    other = replace(diagnose(), summary="Steps take 9 s, but nothing tells what they are spent on.")
    assert other.summary in words(verdict_card(other))


def test_a_step_shows_three_measurements_and_the_rest_on_a_click() -> None:
    evidence = diagnose().evidence
    first, rest = folded_evidence(evidence, 3, "rest")
    assert len(find_all(first, "lp-effect")) == 3
    assert len(find_all(rest, "lp-effect")) == len(evidence) - 3
    assert f"{len(evidence) - 3} more measurements, 1 of them contradicts" in words(rest)
    (alone,) = folded_evidence(evidence[:3], 3, "rest")
    assert "more" not in words(alone)
