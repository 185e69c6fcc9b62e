"""What changed against the run's own past: slower stages, and steps of another shape.

A stage whose seconds grow with the tokens of a step is compared at equal tokens, but never by
seconds a token alone: of fewer tokens each costs more, which is no regression. Gen is compared at
equal responses where their lengths are known. What comes every few steps is compared by what one
occurrence takes.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from longpole.conventions import stages
from longpole_server.analysis.decomposition import decompose
from longpole_server.analysis.step_table import StepTable
from longpole_server.analysis.window import Cycle, Cycles, summarise_window
from longpole_server.diagnosis.baseline import (
    TOKEN_STAGES,
    Baseline,
    describe_configuration,
    mean_known,
)
from longpole_server.diagnosis.gen_pace import mean_response_tokens, measure_gen_pace
from longpole_server.diagnosis.proof import outer
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import label, percent, seconds
from longpole_server.model.diagnosis import Entity, Evidence, Finding, Reference

_CHANGE = "finding.change_ratio"
_JUST_BEFORE = "in the steps just before"


@dataclass(frozen=True, slots=True)
class _Present:
    """The judged steps that the baseline holds for.

    Attributes:
        stage_s: Exclusive seconds a step by stage.
        tokens: Tokens a step, None when not reported.
        cycles: What comes every few steps.
    """

    steps: StepTable
    stage_s: Mapping[str, float]
    tokens: float | None
    cycles: Cycles

    @property
    def range(self) -> tuple[int, int]:
        """First and last step."""
        return int(self.steps.numbers[0]), int(self.steps.numbers[-1])


@dataclass(frozen=True, slots=True)
class _Change:
    """One stage against one side of the baseline.

    Attributes:
        now_s: Seconds a step, or of one occurrence.
        usual_s: What is usual for as many tokens.
        growth: How many times as long it takes, at equal tokens and as it is, the smaller.
        is_regression: Whether this is more than scatter.
        equal: At equal what, for the sentence; empty when as it is.
    """

    stage: str
    now_s: float
    usual_s: float
    growth: float
    is_regression: bool
    equal: str = ""


def find_regressions(view: View) -> tuple[Finding, ...]:
    """Return what the judged steps show against the baseline, nothing where it does not hold."""
    baseline = view.baseline
    if baseline is None or baseline.configuration not in (None, describe_configuration(view.run)):
        return ()
    present = _present(view, baseline)
    if present is None:
        return ()
    since_start = {change.stage: change for change in _compare(view, present, baseline)}
    just_before: dict[str, _Change] = {}
    if baseline.recent is not None:
        just_before = {c.stage: c for c in _compare(view, present, baseline.recent)}
    regressed = [
        stage
        for stage in dict.fromkeys((*since_start, *just_before))
        if any(stage in side and side[stage].is_regression for side in (since_start, just_before))
    ]
    found = [
        _regression(
            view, present, stage, baseline.when, since_start.get(stage), just_before.get(stage)
        )
        for stage in regressed
    ]
    if not TOKEN_STAGES.intersection(regressed):
        found += _token_shape(view, present, baseline)
    return tuple(found)


def _present(view: View, baseline: Baseline) -> _Present | None:
    judged = view.window.judged
    steps = judged.where(baseline.holds_for(judged))
    if not steps:
        return None
    window = view.window
    if len(steps) < len(judged):
        # Nothing is left out once more: who warmed up is out already.
        window = summarise_window(steps, {})
    tokens = mean_known(steps.known("tokens_total"))
    return _Present(steps, window.stage_s, tokens, window.cycles)


def _compare(view: View, present: _Present, usual: Baseline) -> Iterator[_Change]:
    num = len(present.steps)
    for stage, now_s in present.stage_s.items():
        usual_s = usual.stage_s.get(stage, 0.0)
        if stage in present.cycles.inside or stage in usual.cycles.inside or usual_s <= 0:
            continue
        if view.share(stage) >= view.limits["finding.min_share"]:
            at_equal_responses = _compare_gen(view, present, usual) if stage == stages.GEN else None
            if at_equal_responses is not None:
                yield at_equal_responses
                continue
            scatter = usual.scatter.get(stage, 0.0) * math.sqrt(1 / num + 1 / usual.num_steps)
            yield _change(view, present, usual, stage, now_s, usual_s, scatter)
    for now, before in (
        (present.cycles.inside, usual.cycles.inside),
        (present.cycles.outside, usual.cycles.outside),
    ):
        yield from _compare_cycles(view, present, usual, now, before)


def _compare_gen(view: View, present: _Present, usual: Baseline) -> _Change | None:
    """Compare gen at equal responses, None where their lengths are not known."""
    pace = measure_gen_pace(usual.steps, present.steps)
    if pace is None or pace.growth <= 0:
        return None
    now_s = present.stage_s[stages.GEN]
    is_regression = pace.growth >= _limit(view, pace.scatter)
    usual_s = now_s / pace.growth
    return _Change(stages.GEN, now_s, usual_s, pace.growth, is_regression, " for responses as long")


def _limit(view: View, scatter: float) -> float:
    return max(view.limits[_CHANGE], 1 + view.limits["finding.scatter"] * scatter)


def _compare_cycles(
    view: View,
    present: _Present,
    usual: Baseline,
    now: Mapping[str, Cycle],
    before: Mapping[str, Cycle],
) -> Iterator[_Change]:
    for stage, cycle in now.items():
        known = before.get(stage)
        share = cycle.seconds / cycle.period / view.step_s if view.step_s else 0.0
        if known is not None and share >= view.limits["finding.min_share"]:
            yield _change(view, present, usual, stage, cycle.seconds, known.seconds, 0.0)


def _change(
    view: View,
    present: _Present,
    usual: Baseline,
    stage: str,
    now_s: float,
    usual_s: float,
    scatter: float,
) -> _Change:
    at_equal_tokens_s, equal = usual_s, ""
    if stage in TOKEN_STAGES and present.tokens and usual.tokens:
        at_equal_tokens_s = usual_s * max(1.0, present.tokens / usual.tokens)
        equal = " for as many tokens"
    growth = now_s / at_equal_tokens_s
    is_regression = growth >= _limit(view, scatter)
    return _Change(stage, now_s, at_equal_tokens_s, growth, is_regression, equal)


def _regression(
    view: View,
    present: _Present,
    stage: str,
    when_usual: str,
    since_start: _Change | None,
    just_before: _Change | None,
) -> Finding:
    sides = (
        (since_start, when_usual, f"stage_s/{stage}"),
        (just_before, _JUST_BEFORE, f"stage_s/{stage}/recent"),
    )
    rows: list[Evidence] = []
    usual: list[str] = []
    now_s, at = 0.0, ""
    for change, when, metric in sides:
        if change is not None and change.is_regression:
            now_s, at = change.now_s, change.equal
            reference = Reference("baseline", change.usual_s)
            rows.append(outer(metric, change.now_s, "s", view.ledger_source, reference))
            usual.append(f"{seconds(change.usual_s)} {when}")
    name = "time between the stages" if stage == stages.UNATTRIBUTED else label(stage)
    comes_rarely = stage in present.cycles.inside or stage in present.cycles.outside
    each = "each time" if comes_rarely else "a step"
    summary = (
        f"{name[0].upper()}{name[1:]} takes {seconds(now_s)} {each}; usual{at} were "
        f"{' and '.join(usual)}."
    )
    entity = Entity("stage", stage)
    return Finding(f"regression.{stage}", "warning", entity, *present.range, summary, tuple(rows))


def _token_shape(view: View, present: _Present, baseline: Baseline) -> list[Finding]:
    """Steps hold more or fewer tokens, and no stage takes longer for them than it did.

    Answers may grow where long prompts hide it in the sum.
    """
    past = StepTable.of(baseline.steps)
    figures = (
        ("tokens_total", "tokens", present.tokens, baseline.tokens),
        (
            "tokens_response",
            "response tokens",
            mean_response_tokens(present.steps),
            mean_response_tokens(past),
        ),
    )
    limit = view.limits[_CHANGE]
    for metric, what, tokens, usual in figures:
        if not usual or not tokens or 1 / limit < tokens / usual < limit:
            continue
        ratio = tokens / usual
        row = outer(metric, tokens, "tokens", "scalars", Reference("baseline", usual))
        rows, change = _name_parts(view, baseline, present)
        direction = "more" if ratio > 1 else "fewer"
        summary = (
            f"Steps hold {percent(abs(ratio - 1))} {direction} {what} than {baseline.when}"
            f"{change}: compare seconds a token, not seconds a step."
        )
        return [Finding("shape.tokens", "info", None, *present.range, summary, (row, *rows))]
    return []


def _name_parts(
    view: View, baseline: Baseline, present: _Present
) -> tuple[tuple[Evidence, ...], str]:
    """Return the parts of the change of throughput, which add up to it, and the change in words."""
    split = decompose(baseline.steps, present.steps)
    if split.total is None or split.quantity is None:
        return (), ""
    named = {
        f"{part.kind}/{part.name}" if part.kind == "outside" else part.name: part.log_change
        for part in split.parts
        if part.log_change
    }
    rows = tuple(
        outer(f"log_change/{name}", value, "1", view.ledger_source)
        for name, value in {"total": split.total, **named}.items()
    )
    factor = math.exp(split.total)
    more = "more" if factor > 1 else "less"
    return rows, f", with {percent(abs(factor - 1))} {more} throughput"
