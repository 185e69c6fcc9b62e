"""What the loop waits for, with proof: pure functions from facts to a diagnosis."""

from longpole_server.diagnosis.baseline import Baseline, make_baseline
from longpole_server.diagnosis.changes import find_changes
from longpole_server.diagnosis.document import diagnosis_document
from longpole_server.diagnosis.judge import diagnose, diagnose_step

__all__ = [
    "Baseline",
    "diagnose",
    "diagnose_step",
    "diagnosis_document",
    "find_changes",
    "make_baseline",
]
