"""Findings: what is worth knowing beside the verdict."""

from longpole.conventions import stages
from longpole_server.diagnosis.baseline import mean_known
from longpole_server.diagnosis.health import check_health
from longpole_server.diagnosis.proof import inner, outer, threshold
from longpole_server.diagnosis.rules.update_imbalance import read_balance
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import label, percent, seconds, times
from longpole_server.model.diagnosis import Entity, Finding, Reference
from longpole_server.model.step import Note

_CHANGE = "finding.change_ratio"


def find_all(view: View, notes: tuple[Note, ...]) -> tuple[Finding, ...]:
    """Return the findings of a window with at least one judged step.

    Args:
        view: The window.
        notes: Its data-quality notes; some of them are findings as well.
    """
    first, last = view.window.judged[0].step, view.window.judged[-1].step
    return (
        *_from_notes(notes, first, last),
        *_data_parallel(view, first, last),
        *_replicas(view, first, last),
        *_token_shape(view, first, last),
        *_regressions(view, first, last),
        *check_health(view, first, last),
    )


def _from_notes(notes: tuple[Note, ...], first: int, last: int) -> list[Finding]:
    found: list[Finding] = []
    for note in notes:
        if note.code in ("mfu.unknown", "mfu.impossible", "stage.overlap"):
            entity = None if note.code != "stage.overlap" else Entity("stage", note.metric or "")
            first_step = first if note.first_step is None else note.first_step
            last_step = last if note.last_step is None else note.last_step
            found.append(
                Finding(note.code, note.severity, entity, first_step, last_step, note.summary)
            )
    return found


def _data_parallel(view: View, first: int, last: int) -> list[Finding]:
    ratio = read_balance(view)
    if ratio is None or ratio < view.limits["update.imbalance.ratio"]:
        return []
    row = inner(
        "global_seqlen/balanced_max_to_mean",
        ratio,
        "1",
        "scalars",
        threshold(view, "update.imbalance.ratio"),
    )
    summary = (
        f"The fullest data-parallel rank holds {percent(ratio - 1)} more tokens than the mean."
    )
    return [Finding("imbalance.dp", "warning", None, first, last, summary, (row,))]


def _replicas(view: View, first: int, last: int) -> list[Finding]:
    inside = view.inside
    limit = view.limits["rollout.imbalance.ratio"]
    if inside is None or inside.replica_ratio is None or inside.replica_ratio < limit:
        return []
    row = inner(
        "rollout/replica_seconds_per_token",
        inside.replica_ratio,
        "1",
        view.inside_source or "",
        threshold(view, "rollout.imbalance.ratio"),
    )
    entity = Entity("replica", inside.slowest_replica or "")
    summary = (
        f"Replica {inside.slowest_replica} takes {times(inside.replica_ratio)} the seconds a token "
        "of the others."
    )
    return [Finding("imbalance.replica", "warning", entity, first, last, summary, (row,))]


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
