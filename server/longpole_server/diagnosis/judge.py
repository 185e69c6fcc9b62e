"""From facts to a diagnosis: the one entry of this package."""

from collections.abc import Mapping, Sequence

from longpole_server.diagnosis.baseline import Baseline
from longpole_server.model.diagnosis import Diagnosis
from longpole_server.model.facts import RunFacts, StepFacts


def diagnose(
    run: RunFacts,
    steps: Sequence[StepFacts],
    baseline: Baseline | None = None,
    *,
    attempt_starts: Mapping[int, int] | None = None,
    overrides: Mapping[str, float] | None = None,
) -> Diagnosis:
    """Judge a range of steps of one run."""
    raise NotImplementedError


def diagnose_step(
    run: RunFacts,
    facts: StepFacts,
    baseline: Baseline | None = None,
    *,
    overrides: Mapping[str, float] | None = None,
) -> Diagnosis:
    """Judge one step."""
    raise NotImplementedError
