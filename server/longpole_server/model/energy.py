"""What GPUs took in energy. Of the GPUs alone: hosts and networks are not in it."""

from dataclasses import dataclass

from longpole_server.model.step import StageEnergy


@dataclass(frozen=True, slots=True)
class StepEnergy:
    """The energy of one step. None is not reported.

    Attributes:
        energy_joules: Of all GPUs that the run held, from the step's begin to its end.
        joules_per_token: Over all tokens of the step.
        is_estimated: Whether it is mean power times seconds, where no counter tells.
        stages: By stage and role. Windows of stages that overlap share joules, so that these may
            add up to more than the step.
    """

    step: int
    attempt: int
    start_ns: int
    end_ns: int
    duration_s: float
    gpu_count: int
    tokens_total: int | None
    energy_joules: float | None
    joules_per_token: float | None
    is_estimated: bool
    stages: tuple[StageEnergy, ...]


@dataclass(frozen=True, slots=True)
class RunEnergy:
    """The energy of a run.

    Attributes:
        energy_joules: From the first moment a GPU was held to the last that is known, what ran
            between steps included; by the drivers' counters alone, None where one does not tell.
        gpu_seconds: Time that GPUs were held, added up.
        steps: Those asked for, in order.
    """

    run_id: str
    energy_joules: float | None
    gpu_seconds: float
    steps: tuple[StepEnergy, ...]
