"""What the loop waits for, with proof: pure functions from facts to a diagnosis."""

from longpole_server.diagnosis.against import compare_windows
from longpole_server.diagnosis.baseline import Baseline, make_baseline
from longpole_server.diagnosis.changes import find_changes
from longpole_server.diagnosis.document import diagnosis_document, finding_document
from longpole_server.diagnosis.judge import (
    NEWEST_LOOKS,
    diagnose,
    diagnose_run,
    diagnose_step,
    diagnose_window,
)

__all__ = [
    "NEWEST_LOOKS",
    "Baseline",
    "compare_windows",
    "diagnose",
    "diagnose_run",
    "diagnose_step",
    "diagnose_window",
    "diagnosis_document",
    "find_changes",
    "finding_document",
    "make_baseline",
]
