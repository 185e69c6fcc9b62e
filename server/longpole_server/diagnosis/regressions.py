"""What changed against the run's own past: slower stages, and steps of another shape."""

from longpole.conventions import stages
from longpole_server.diagnosis.baseline import mean_known
from longpole_server.diagnosis.proof import outer
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import label, percent, seconds
from longpole_server.model.diagnosis import Entity, Finding, Reference

_CHANGE = "finding.change_ratio"


def find_regressions(view: View, first: int, last: int) -> tuple[Finding, ...]:
    """Return what the judged steps show against the baseline.

    Args:
        view: The window.
        first: First judged step.
        last: Last judged step.
    """
    return (*_token_shape(view, first, last), *_regressions(view, first, last))


def _token_shape(view: View, first: int, last: int) -> list[Finding]:
    """Tokens a step changed: then step times and shares are not comparable as they are."""
    usual = view.baseline.tokens if view.baseline is not None else None
    tokens = mean_known([step.tokens_total for step in view.window.judged])
    if not usual or not tokens:
        return []
    ratio = tokens / usual
    limit = view.limits[_CHANGE]
    if 1 / limit < ratio < limit:
        return []
    direction = "more" if ratio > 1 else "fewer"
    summary = (
        f"Steps hold {percent(abs(ratio - 1))} {direction} tokens than usual: compare seconds a "
        "token, not seconds a step."
    )
    row = outer("tokens_total", tokens, "tokens", "scalars", Reference("baseline", usual))
    return [Finding("shape.tokens", "info", None, first, last, summary, (row,))]


def _regressions(view: View, first: int, last: int) -> list[Finding]:
    """Stages that take longer than in the baseline, more than their tokens explain."""
    baseline = view.baseline
    if baseline is None:
        return []
    tokens = mean_known([step.tokens_total for step in view.window.judged])
    growth_of_tokens = tokens / baseline.tokens if tokens and baseline.tokens else 1.0
    found: list[Finding] = []
    for stage, now_s in view.window.stage_s.items():
        usual_s = baseline.stage_s.get(stage, 0.0)
        if usual_s <= 0 or view.share(stage) < view.limits["finding.min_share"]:
            continue
        if now_s / usual_s < view.limits[_CHANGE] * max(1.0, growth_of_tokens):
            continue
        row = outer(
            f"stage_s/{stage}", now_s, "s", view.ledger_source, Reference("baseline", usual_s)
        )
        name = "time between the stages" if stage == stages.UNATTRIBUTED else label(stage)
        found.append(
            Finding(
                f"regression.{stage}",
                "warning",
                Entity("stage", stage),
                first,
                last,
                f"{name[0].upper()}{name[1:]} takes {seconds(now_s)} a step, usual are "
                f"{seconds(usual_s)}.",
                (row,),
            )
        )
    return found
