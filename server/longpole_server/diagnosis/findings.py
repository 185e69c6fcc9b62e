"""Findings: what is worth knowing beside the verdict."""

from longpole_server.diagnosis.health import check_health
from longpole_server.diagnosis.proof import inner, threshold
from longpole_server.diagnosis.regressions import find_regressions
from longpole_server.diagnosis.rules.update_imbalance import read_balance
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent, times
from longpole_server.model.diagnosis import Entity, Finding
from longpole_server.model.step import Note


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
        *find_regressions(view),
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
