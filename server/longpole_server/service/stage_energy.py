"""Energy of a step by stage: the drivers' counters where each window begins and ends."""

from collections.abc import Mapping, Sequence

from longpole_server.analysis.intervals import Interval
from longpole_server.model.gpu import RunGpu
from longpole_server.model.step import StageEnergy, Step
from longpole_server.service.gpu_windows import windows_of


def list_moments(step: Step) -> list[int]:
    """Return where windows of stages begin and end."""
    windows = [window for each in windows_of(step).values() for window in each]
    return sorted({edge for window in windows for edge in window})


def sum_energy(
    step: Step, gpus: Sequence[RunGpu], joules: Mapping[tuple[str, int], float]
) -> tuple[StageEnergy, ...]:
    """Return what the GPUs took in each stage, by role.

    Args:
        step: Its stages' windows say when, and what they leave open is `unattributed`.
        gpus: GPUs that the run held.
        joules: Counters by GPU and moment.
    """
    found: list[StageEnergy] = []
    for stage, windows in windows_of(step).items():
        for role in sorted({gpu.role for gpu in gpus}):
            uuids = {gpu.gpu_uuid for gpu in gpus if gpu.role == role}
            parts = [_take(uuid, windows, joules) for uuid in sorted(uuids)]
            known = [part for part in parts if part is not None]
            if known:
                # A part of the GPUs is no sum over all.
                total = sum(known) if len(known) == len(parts) else None
                found.append(StageEnergy(stage, role, len(parts), total))
    return tuple(found)


def _take(
    uuid: str, windows: Sequence[Interval], joules: Mapping[tuple[str, int], float]
) -> float | None:
    total = 0.0
    for start_ns, end_ns in windows:
        before, after = joules.get((uuid, start_ns)), joules.get((uuid, end_ns))
        # A counter that began anew, with its driver, tells nothing.
        if before is None or after is None or after < before:
            return None
        total += after - before
    return total
