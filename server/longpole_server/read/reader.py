"""Typed queries on the store. Thread-safe: one client per thread. SQL never leaves this package."""

from collections.abc import Mapping, Sequence

from longpole_server.model.cluster import GpuMinute, NodeNow, ProcessMemory
from longpole_server.model.comparison import Quantiles, SampleMetric
from longpole_server.model.discovery import ScrapeTarget
from longpole_server.model.facts import ObjectStoreFacts
from longpole_server.model.gpu import GpuGrant, GpuHeatmap, GpuHolder, GpuNow, RunGpu
from longpole_server.model.metric import MetricColumns
from longpole_server.model.records import (
    ProcessSeen,
    RunStart,
    StageSpan,
    StageStart,
)
from longpole_server.model.step import Step
from longpole_server.model.trajectory import Trajectory, TrajectoryPart
from longpole_server.read import (
    cluster,
    discovery,
    distributions,
    engines,
    gpu_columns,
    gpu_energy,
    gpus,
    heatmap,
    host_processes,
    object_stores,
    runs,
    samples,
    scalars,
    step_columns,
    steps,
    trajectories,
)
from longpole_server.read.distributions import StepWindow
from longpole_server.read.engines import EngineBin
from longpole_server.read.gpu_columns import GpuColumns
from longpole_server.read.gpus import GpuWork
from longpole_server.read.pool import ClientPool
from longpole_server.read.run_parts import RunParts, list_run_parts
from longpole_server.read.runs import AttemptRow
from longpole_server.read.samples import SampleColumns
from longpole_server.read.step_columns import StepsState, VersionedColumns
from longpole_server.read.step_memory import StepMemory
from longpole_server.read.steps import list_stage_spans_of, list_steps_at
from longpole_server.store import Store


class Reader:
    """Reads. Every method raises `StoreError` when the database fails, never anything else.

    Where a step was recorded under several attempts, methods without an `attempt` argument
    return the latest attempt of that step.

    Args:
        pool: Its connections, closed with it.
    """

    def __init__(self, pool: ClientPool) -> None:
        self._pool = pool
        self._steps = StepMemory()

    @property
    def pool(self) -> ClientPool:
        """Its connections."""
        return self._pool

    def list_attempts(self, run_id: str | None = None) -> Sequence[AttemptRow]:
        """Return all attempts of one or all runs, by run and attempt."""
        return runs.list_attempts(self._pool, run_id)

    def list_claims(self, run_id: str) -> Sequence[RunStart]:
        """Return what tells whose a run is, and those that may have collided with its id. Cheap."""
        return runs.list_claims(self._pool, run_id)

    def list_steps(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> Sequence[Step]:
        """Return derived steps (latest attempt of each), in order."""
        return steps.list_steps(self._pool, self._steps, run_id, first, last)

    def list_last_steps(self, run_id: str, count: int) -> Sequence[Step]:
        """Return the last `count` closed steps, in order."""
        return steps.list_last_steps(self._pool, run_id, count)

    def list_run_parts(
        self, run_ids: Sequence[str], num_steps: int, num_paces: int
    ) -> Mapping[str, RunParts]:
        """Return what the lines of hundreds of runs are made of: last steps, and paces of more."""
        return list_run_parts(self._pool, run_ids, num_steps, num_paces)

    def list_steps_at(self, run_id: str, steps: Sequence[tuple[int, int]]) -> Sequence[Step]:
        """Return the steps of (attempt, step) pairs, as far as they are there, by number."""
        return list_steps_at(self._pool, run_id, steps)

    def get_steps_state(self, run_id: str) -> StepsState:
        """Return what tells whether a run's steps are still those that were read. Cheap."""
        return step_columns.get_state(self._pool, run_id)

    def list_step_columns(self, run_id: str, after: int = 0) -> VersionedColumns:
        """Return a run's steps of all attempts written after a version, as columns."""
        return step_columns.list_columns(self._pool, run_id, after)

    def list_step_numbers(self, run_id: str) -> Sequence[tuple[int, int, bool]]:
        """Return (step, attempt, closed) of every derived step, in order. Cheap."""
        return steps.list_step_numbers(self._pool, run_id)

    def find_neighbours(self, run_id: str, step: int) -> tuple[int | None, int | None]:
        """Return the numbers of the steps before and after one, None where there is none. Cheap."""
        return steps.find_neighbours(self._pool, run_id, step)

    def list_step_verdicts(self, run_id: str) -> Sequence[tuple[int, str | None]]:
        """Return (step, verdict) of every derived step, in order. Cheap."""
        return steps.list_step_verdicts(self._pool, run_id)

    def get_newest_step_version(self) -> int:
        """Return the highest version of any derived step, 0 without one."""
        return steps.get_newest_version(self._pool)

    def get_step_diagnosis(self, run_id: str, attempt: int, step: int) -> str:
        """Return the diagnosis stored with a step, as JSON; "" when there is none."""
        return steps.get_diagnosis(self._pool, run_id, attempt, step)

    def list_stage_spans(self, run_id: str, attempt: int, step: int) -> Sequence[StageSpan]:
        """Return every window of a step, of all processes, once each."""
        return steps.list_stage_spans(self._pool, run_id, attempt, step)

    def list_stage_spans_of(
        self, run_id: str, steps: Sequence[tuple[int, int]]
    ) -> Mapping[tuple[int, int], Sequence[StageSpan]]:
        """Return the windows of many (attempt, step) pairs in one query."""
        return list_stage_spans_of(self._pool, run_id, steps)

    def list_recorded_steps(self, run_id: str, attempt: int) -> Sequence[int]:
        """Return the steps of which an attempt sent windows or scalars, derived or not."""
        return steps.list_recorded_steps(self._pool, run_id, attempt)

    def get_scalars(
        self, run_id: str, attempt: int, step: int
    ) -> tuple[Mapping[str, float], int | None]:
        """Return the step's logged scalars and when the newest arrived (ns)."""
        return scalars.get_scalars(self._pool, run_id, attempt, step)

    def list_scalars(
        self, run_id: str, steps: Sequence[tuple[int, int]]
    ) -> Mapping[tuple[int, int], Mapping[str, float]]:
        """Return the scalars of many (attempt, step) pairs in one query."""
        return scalars.list_scalars(self._pool, run_id, steps)

    def get_metrics(
        self, run_id: str, names: Sequence[str]
    ) -> Mapping[str, Sequence[tuple[int, int, float]]]:
        """Return (step, ts_ns, value) of each of `names` that the run has, in one query."""
        return scalars.get_metrics(self._pool, run_id, names)

    def count_points(self, run_id: str, first: int | None, last: int | None) -> Mapping[str, int]:
        """Return about how many points each metric of a run has in a range of steps. Cheap."""
        return scalars.count_points(self._pool, run_id, first, last)

    def read_metric_columns(
        self, run_id: str, names: Sequence[str], first: int | None, last: int | None
    ) -> Mapping[str, MetricColumns]:
        """Return each of `names` that the run has in a range of steps, in one query."""
        return scalars.read_columns(self._pool, run_id, names, first, last)

    def has_samples(self, run_id: str, attempt: int) -> bool:
        """Tell whether an attempt has samples at all. Cheap."""
        return trajectories.has_any(self._pool, run_id, attempt)

    def list_object_stores(
        self, hosts: Sequence[str], start_ns: int, end_ns: int
    ) -> Sequence[ObjectStoreFacts]:
        """Return what Ray's object stores of some nodes did in a stretch of time."""
        return object_stores.list_object_stores(self._pool, hosts, start_ns, end_ns)

    def has_engines(self, run_id: str, attempt: int) -> bool:
        """Tell whether the engines of an attempt reported at all. Cheap."""
        return engines.has_any(self._pool, run_id, attempt)

    def list_trajectories(
        self,
        run_id: str,
        attempt: int,
        step: int,
        window_ns: tuple[int, int] | None,
        phase: str | None = None,
        order: str = "-duration",
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[Trajectory]:
        """Return samples of a step; those of unknown step count when they end in `window_ns`."""
        return trajectories.list_trajectories(
            self._pool,
            run_id,
            attempt,
            step,
            window_ns=window_ns,
            phase=phase,
            order=order,
            limit=limit,
            offset=offset,
        )

    def read_samples(
        self,
        run_id: str,
        attempt: int,
        step: int,
        window_ns: tuple[int, int] | None,
        limit: int,
    ) -> SampleColumns:
        """Return the training samples of a step as columns, by start, as `list_trajectories`."""
        return samples.read_samples(
            self._pool, run_id, attempt, step, window_ns=window_ns, limit=limit
        )

    def find_trajectory(self, run_id: str, trajectory_id: str) -> Trajectory | None:
        """Return one sample, or None."""
        return trajectories.find_trajectory(self._pool, run_id, trajectory_id)

    def list_trajectory_parts(self, run_id: str, trajectory_id: str) -> Sequence[TrajectoryPart]:
        """Return where a sample's time went, in order of time."""
        return trajectories.list_parts(self._pool, run_id, trajectory_id)

    def list_parts_of(
        self, run_id: str, attempt: int, trajectory_ids: Sequence[str]
    ) -> Mapping[str, Sequence[TrajectoryPart]]:
        """Return where the time of several samples of one attempt went, in one query."""
        return trajectories.list_parts_of(self._pool, run_id, attempt, trajectory_ids)

    def list_main_tools(self, run_id: str, attempt: int, step: int) -> Mapping[str, str]:
        """Return the tool that each sample spent most time in, by the sample's id.

        Of the samples of a step and of those of unknown step; those without tools are left out.
        """
        return trajectories.list_main_tools(self._pool, run_id, attempt, step)

    def list_group(
        self, run_id: str, attempt: int, step: int, group_id: str
    ) -> Sequence[Trajectory]:
        """Return the samples of one prompt's group in one step."""
        return trajectories.list_group(self._pool, run_id, attempt, step, group_id)

    def get_sample_quantiles(
        self, run_id: str, windows: Sequence[StepWindow]
    ) -> Mapping[SampleMetric, Quantiles]:
        """Return how the training samples of some steps are distributed, all taken together."""
        return distributions.get_quantiles(self._pool, run_id, windows)

    def list_scrape_targets(self, since_ns: int) -> Sequence[ScrapeTarget]:
        """Return the Prometheus pages registered since a time, by job and target."""
        return discovery.list_scrape_targets(self._pool, since_ns)

    def list_stage_starts(self, run_id: str, attempt: int, since_ns: int) -> Sequence[StageStart]:
        """Return announced windows whose newest heartbeat is not older than a time.

        A window that has ended since is among them: its stage span tells.
        """
        return runs.list_stage_starts(self._pool, run_id, attempt, since_ns)

    def list_processes(self, run_id: str) -> Sequence[ProcessSeen]:
        """Return the processes of a run, newest sighting of each."""
        return runs.list_processes(self._pool, run_id)

    def list_gpu_holders(self, since_ns: int) -> Sequence[GpuHolder]:
        """Return which processes held memory on which GPU since a time."""
        return gpus.list_gpu_holders(self._pool, since_ns)

    def list_gpus_of_processes(
        self, processes: Sequence[tuple[str, int]], start_ns: int, end_ns: int
    ) -> frozenset[str]:
        """Return UUIDs of the GPUs on which processes, by host and pid, held memory in a time."""
        return gpus.list_gpus_of_processes(self._pool, processes, start_ns, end_ns)

    def list_gpu_grants(self, since_ns: int) -> Sequence[GpuGrant]:
        """Return which pods were given which GPU since a time, as kubelets said."""
        return gpus.list_gpu_grants(self._pool, since_ns)

    def list_run_gpus(self, run_id: str) -> Sequence[RunGpu]:
        """Return the GPUs that the run holds or held."""
        return gpus.list_run_gpus(self._pool, run_id)

    def list_gpus(self, since_ns: int) -> Sequence[GpuNow]:
        """Return the newest sample of each GPU seen since a time."""
        return gpus.list_gpus(self._pool, since_ns)

    def list_gpu_hosts(self, since_ns: int) -> Mapping[str, int]:
        """Return when each node with GPUs last sent a sample of one, since a time."""
        return gpus.list_gpu_hosts(self._pool, since_ns)

    def list_nodes(self, since_ns: int) -> Sequence[NodeNow]:
        """Return the newest sample of each node that sent one since a time, by name."""
        return cluster.list_nodes(self._pool, since_ns)

    def get_gpu_minutes(self, since_ns: int) -> Mapping[tuple[str, str], GpuMinute]:
        """Return what each GPU did since a time, by node and uuid."""
        return cluster.get_gpu_minutes(self._pool, since_ns)

    def read_energy(
        self, gpu_uuids: Sequence[str], moments_ns: Sequence[int]
    ) -> Mapping[tuple[str, int], float]:
        """Return joules by GPU and moment, of which only differences mean something."""
        return gpu_energy.read_energy(self._pool, gpu_uuids, moments_ns)

    def list_gpu_work(
        self,
        gpu_uuids: Sequence[str],
        start_ns: int,
        end_ns: int,
        busy_activity: float,
        slowdown_mask: int,
    ) -> Sequence[GpuWork]:
        """Return what each GPU did over a range; those without a sample in it are left out."""
        return gpus.list_gpu_work(
            self._pool, gpu_uuids, start_ns, end_ns, busy_activity, slowdown_mask
        )

    def read_gpu_columns(
        self, gpu_uuids: Sequence[str], start_ns: int, end_ns: int, max_samples: int
    ) -> GpuColumns | None:
        """Return all samples of some GPUs in a range, None if there are more than that."""
        return gpu_columns.read_gpu_columns(self._pool, gpu_uuids, start_ns, end_ns, max_samples)

    def list_gpu_ranks(
        self, gpu_uuids: Sequence[str], start_ns: int, end_ns: int
    ) -> Mapping[str, int]:
        """Return the rank of the process on each GPU in a range, where its launcher says one."""
        return gpus.list_gpu_ranks(self._pool, gpu_uuids, start_ns, end_ns)

    def list_host_processes(
        self, host: str | None, start_ns: int, end_ns: int, max_bins: int, limit: int
    ) -> Sequence[ProcessMemory]:
        """Return what processes held of a node's memory, or of all nodes', by growth."""
        return host_processes.list_host_processes(
            self._pool, host, start_ns, end_ns, max_bins, limit
        )

    def list_engine_bins(
        self,
        run_id: str,
        attempt: int,
        names: Sequence[str],
        start_ns: int,
        end_ns: int,
        bin_ns: int,
    ) -> Sequence[EngineBin]:
        """Return the named series of a run's engines, binned, by replica, name and time."""
        return engines.list_engine_bins(
            self._pool, run_id, attempt, names, start_ns, end_ns, bin_ns
        )

    def get_gpu_heatmap(
        self, lanes: Sequence[RunGpu], field: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap:
        """Return one field of the given GPUs, binned by mean; reads rollups when bins allow.

        A bin is at least a second. Wide bins begin where a rollup row begins, a little before
        `start_ns`: the answer says where.

        Raises:
            BadRequestError: A GPU sample has no such field.
        """
        return self.get_gpu_heatmaps(lanes, (field,), start_ns, end_ns, max_bins)[field]

    def get_gpu_heatmaps(
        self,
        lanes: Sequence[RunGpu],
        fields: Sequence[str],
        start_ns: int,
        end_ns: int,
        max_bins: int,
    ) -> Mapping[str, GpuHeatmap]:
        """Return several fields by name in one query, as `get_gpu_heatmap` does one.

        Raises:
            BadRequestError: A GPU sample has no such field.
        """
        return heatmap.get_heatmaps(self._pool, lanes, fields, start_ns, end_ns, max_bins)

    def close(self) -> None:
        """Close every client."""
        self._pool.close()


def open_reader(store: Store, threads: int = 4) -> Reader:
    """Return a reader of an open store that runs up to `threads` queries at a time.

    Close it before the store.

    Raises:
        StoreError: The database failed.
    """
    return Reader(ClientPool(store.new_reader_client, threads))
