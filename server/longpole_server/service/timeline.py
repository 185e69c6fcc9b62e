"""What else ran during a step: lanes of other processes, and phases of the weight sync."""

from collections.abc import Sequence

from longpole.conventions.attributes import LEDGER_ROLES
from longpole.conventions.ray_titles import is_title
from longpole_server.model.records import StageSpan
from longpole_server.model.step import StageLane, SyncPhase


def list_lanes(spans: Sequence[StageSpan]) -> tuple[StageLane, ...]:
    """Return the stage windows of processes whose stages are not in the ledger.

    What the title of a process hints at is shown where the process itself tells nothing.
    """
    loops = [span for span in spans if span.is_loop]
    owners = {(span.host, span.pid) for span in loops}
    telling = {(span.host, span.pid) for span in spans if not is_title(span.name)}
    return tuple(
        StageLane(
            span.stage,
            span.role,
            span.host,
            span.pid,
            span.start_ns,
            span.end_ns,
            is_title(span.name),
        )
        for span in sorted(spans, key=lambda span: (span.role, span.host, span.pid, span.start_ns))
        if not span.is_loop
        and span.sync_phase is None
        and not (is_title(span.name) and (span.host, span.pid) in telling)
        and (
            (span.host, span.pid) not in owners
            if owners
            else bool(span.role) and span.role not in LEDGER_ROLES
        )
    )


def list_sync_phases(spans: Sequence[StageSpan]) -> tuple[SyncPhase, ...]:
    """Return the phases of the step's weight sync in order of time."""
    return tuple(
        SyncPhase(span.sync_phase, span.start_ns, span.end_ns)
        for span in sorted(spans, key=lambda span: span.start_ns)
        if span.sync_phase is not None
    )
