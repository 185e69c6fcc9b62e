"""Energy of a step by stage: the drivers' counters where each window begins and ends."""

from collections.abc import Iterable, Mapping, Sequence

from longpole_server.analysis.intervals import Interval
from longpole_server.model.facts import GpuWindow
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
            parts = [take_between(uuid, windows, joules) for uuid in sorted(uuids)]
            known = [part for part in parts if part is not None]
            if known:
                # A part of the GPUs is no sum over all.
                total = sum(known) if len(known) == len(parts) else None
                found.append(StageEnergy(stage, role, len(parts), total))
    return tuple(found)


def take_between(
    uuid: str, windows: Sequence[Interval], joules: Mapping[tuple[str, int], float]
) -> float | None:
    """Return what a GPU took in some windows, None where its counter does not tell.

    Args:
        uuid: The GPU.
        windows: They do not overlap.
        joules: Counters by GPU and moment.
    """
    total = 0.0
    for start_ns, end_ns in windows:
        before, after = joules.get((uuid, start_ns)), joules.get((uuid, end_ns))
        # A counter that began anew, with its driver, tells nothing.
        if before is None or after is None or after < before:
            return None
        total += after - before
    return total


def estimate_energy(windows: Iterable[GpuWindow]) -> tuple[StageEnergy, ...]:
    """Return mean power times seconds, of the windows in which power is known."""
    return tuple(
        StageEnergy(
            window.stage,
            window.role,
            window.gpu_count,
            window.power_watts * window.seconds * window.gpu_count,
            is_estimated=True,
        )
        for window in windows
        if window.power_watts is not None
    )
