"""Notes on the data that are findings as well."""

from longpole_server.diagnosis.finding_kind import FindingKind
from longpole_server.diagnosis.view import View
from longpole_server.model.diagnosis import Entity, Finding
from longpole_server.model.step import Note

_CODES = frozenset({"mfu.unknown", "mfu.impossible", "stage.overlap"})


def find_from_notes(view: View, notes: tuple[Note, ...]) -> list[Finding]:
    """Return the findings that stand among the data-quality notes too."""
    first, last = view.window.judged[0].step, view.window.judged[-1].step
    return [
        Finding(
            note.code,
            note.severity,
            Entity("stage", note.metric or "") if note.code == "stage.overlap" else None,
            first if note.first_step is None else note.first_step,
            last if note.last_step is None else note.last_step,
            note.summary,
        )
        for note in notes
        if note.code in _CODES
    ]


def _nothing(_view: View) -> list[Finding]:
    return []


MFU_UNKNOWN = FindingKind(
    "mfu.unknown",
    "the update's MFU is not known",
    "No MFU is reported, or 0, and model or GPU are not known well enough to compute it.",
    ("perf/mfu/actor", "model configuration", "GPU model"),
    _nothing,
)
MFU_IMPOSSIBLE = FindingKind(
    "mfu.impossible",
    "a reported MFU cannot be true",
    "It is below 0 or above 1: the trainer divides by the wrong peak rate.",
    ("perf/mfu/actor",),
    _nothing,
)
OVERLAP = FindingKind(
    "stage.overlap",
    "stages of one process overlap",
    "Sibling stage windows share time; it belongs to the one that ends last.",
    ("stage spans",),
    _nothing,
)
