"""Typed queries on the store. Thread-safe: one client per thread. SQL never leaves this package."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longpole_server.model.gpu import GpuHeatmap, GpuNow, RunGpu
from longpole_server.model.records import (
    GpuProcess,
    ProcessSeen,
    RunEnd,
    RunStart,
    StageSpan,
    StageStart,
)
from longpole_server.model.step import Step
from longpole_server.model.trajectory import Trajectory, TrajectoryPart
from longpole_server.store import Store


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt of a run as stored, with what its data says about its extent."""

    start: RunStart
    end: RunEnd | None
    last_seen_ns: int


class Reader:
    """Reads. Every method raises `StoreError` when the database fails, never anything else.

    Where a step was recorded under several attempts, methods without an `attempt` argument
    return the latest attempt of that step.
    """

    def list_attempts(self, run_id: str | None = None) -> Sequence[AttemptRow]:
        """Return all attempts of one or all runs, by run and attempt."""
        raise NotImplementedError

    def list_steps(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> Sequence[Step]:
        """Return derived steps (latest attempt of each), in order."""
        raise NotImplementedError

    def list_last_steps(self, run_id: str, count: int) -> Sequence[Step]:
        """Return the last `count` closed steps, in order."""
        raise NotImplementedError

    def list_step_numbers(self, run_id: str) -> Sequence[tuple[int, int, bool]]:
        """Return (step, attempt, closed) of every derived step, in order. Cheap."""
        raise NotImplementedError

    def list_stage_spans(self, run_id: str, attempt: int, step: int) -> Sequence[StageSpan]:
        """Return every window of a step, of all processes, once each."""
        raise NotImplementedError

    def get_scalars(
        self, run_id: str, attempt: int, step: int
    ) -> tuple[Mapping[str, float], int | None]:
        """Return the step's logged scalars and when the newest arrived (ns)."""
        raise NotImplementedError

    def list_scalars(
        self, run_id: str, steps: Sequence[tuple[int, int]]
    ) -> Mapping[tuple[int, int], Mapping[str, float]]:
        """Return the scalars of many (attempt, step) pairs in one query."""
        raise NotImplementedError

    def get_metric(self, run_id: str, names: Sequence[str]) -> Sequence[tuple[int, int, float]]:
        """Return (step, ts_ns, value) of the first of `names` that the run has."""
        raise NotImplementedError

    def list_trajectories(
        self,
        run_id: str,
        attempt: int,
        step: int,
        window_ns: tuple[int, int] | None,
        phase: str | None = None,
        order: str = "-duration",
        limit: int = 100,
    ) -> Sequence[Trajectory]:
        """Return samples of a step; those of unknown step count when they end in `window_ns`."""
        raise NotImplementedError

    def find_trajectory(self, run_id: str, trajectory_id: str) -> Trajectory | None:
        """Return one sample, or None."""
        raise NotImplementedError

    def list_trajectory_parts(self, run_id: str, trajectory_id: str) -> Sequence[TrajectoryPart]:
        """Return where a sample's time went, in order of time."""
        raise NotImplementedError

    def list_group(
        self, run_id: str, attempt: int, step: int, group_id: str
    ) -> Sequence[Trajectory]:
        """Return the samples of one prompt's group in one step."""
        raise NotImplementedError

    def list_stage_starts(self, run_id: str, attempt: int, since_ns: int) -> Sequence[StageStart]:
        """Return announcements of open windows seen since a time, newest heartbeat of each."""
        raise NotImplementedError

    def list_processes(self, run_id: str) -> Sequence[ProcessSeen]:
        """Return the processes of a run, newest sighting of each."""
        raise NotImplementedError

    def list_gpu_processes(self, since_ns: int) -> Sequence[GpuProcess]:
        """Return which process holds memory on which GPU, newest sighting of each since a time."""
        raise NotImplementedError

    def list_run_gpus(self, run_id: str) -> Sequence[RunGpu]:
        """Return the GPUs that the run holds or held."""
        raise NotImplementedError

    def list_gpus(self, since_ns: int) -> Sequence[GpuNow]:
        """Return the newest sample of each GPU seen since a time."""
        raise NotImplementedError

    def get_gpu_heatmap(
        self, lanes: Sequence[RunGpu], field: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap:
        """Return one field of the given GPUs, binned by mean; reads rollups when bins allow."""
        raise NotImplementedError

    def close(self) -> None:
        """Close every client."""
        raise NotImplementedError


def open_reader(store: Store, threads: int = 4) -> Reader:
    """Return a reader of an open store that runs up to `threads` queries at a time.

    Close it before the store.

    Raises:
        StoreError: The database failed.
    """
    raise NotImplementedError
