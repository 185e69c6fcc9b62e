"""The ledger: what the seconds of a step were spent on, from spans, from scalars, or from both."""

from longpole_server.model.facts import StepInputs
from longpole_server.model.step import Step


def assemble_step(inputs: StepInputs) -> Step:
    """Return the step with its stages' exclusive seconds, which add up to it exactly."""
    raise NotImplementedError
