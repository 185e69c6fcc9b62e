"""Findings: what is worth knowing beside the verdict. Each kind is data with a function."""

from longpole_server.diagnosis.finding_kind import FindingKind
from longpole_server.diagnosis.findings import (
    against_past,
    balance,
    gpus,
    kv_cache,
    notes,
    policy_lag,
)
from longpole_server.diagnosis.findings.notes import find_from_notes
from longpole_server.diagnosis.health import HEALTH_KINDS
from longpole_server.diagnosis.view import View
from longpole_server.model.diagnosis import Finding
from longpole_server.model.step import Note

FINDINGS: tuple[FindingKind, ...] = (
    notes.MFU_UNKNOWN,
    notes.MFU_IMPOSSIBLE,
    notes.OVERLAP,
    balance.DATA_PARALLEL,
    balance.REPLICA,
    gpus.IDLE,
    gpus.THROTTLED,
    gpus.LOST,
    gpus.STRAGGLER,
    kv_cache.PRESSURE,
    kv_cache.LEAK,
    kv_cache.COLD,
    kv_cache.ROUTING,
    policy_lag.DRIFT,
    policy_lag.EXCEEDED,
    policy_lag.MISMATCH,
    policy_lag.FILTERED,
    against_past.REGRESSION,
    *HEALTH_KINDS,
)


def find_all(view: View, notes_of_window: tuple[Note, ...]) -> tuple[Finding, ...]:
    """Return the findings of a window with at least one judged step.

    Args:
        view: The window.
        notes_of_window: Its data-quality notes; some of them are findings as well.
    """
    return (
        *find_from_notes(view, notes_of_window),
        *(finding for kind in FINDINGS for finding in kind.find(view)),
    )
