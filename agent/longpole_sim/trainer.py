"""The controller process: goes through the plan in real time and reports it through the SDK."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

import longpole
from longpole.conventions.stages import GEN, TESTING
from longpole_sim.cluster import Gpu
from longpole_sim.gpu_file import GpuFile
from longpole_sim.gpu_timeline import make_timeline
from longpole_sim.nodes import NodeAddress
from longpole_sim.painter import Painter
from longpole_sim.plan import StagePlan, StepPlan
from longpole_sim.rollout_worker import RolloutWorkers
from longpole_sim.run_identity import SYSTEM, SYSTEM_VERSION, RunIdentity, describe_config
from longpole_sim.scalars import step_scalars
from longpole_sim.tether import tie_to_parent
from longpole_sim.trainer_ranks import TrainerRanks
from longpole_sim.workload import plan_run

# Exit status of a trainer that a scenario lets crash.
CRASH_STATUS = 70
_FLUSH_SECONDS = 10.0


class StopRequestedError(Exception):
    """The process that started the trainer asks it to end, or has ended itself."""


@dataclass(frozen=True, slots=True)
class StopTrainer:
    """Sent to the trainer: end the run now."""


@dataclass(frozen=True, slots=True)
class TrainerReady:
    """Sent once everything runs and the first step is about to start."""


@dataclass(frozen=True, slots=True)
class StepFinished:
    """Sent after every step.

    Attributes:
        seconds: By stage, and of the `step`.
        throughput: Tokens per second and GPU.
    """

    step: int
    seconds: dict[str, float]
    throughput: float


@dataclass(frozen=True, slots=True)
class TrainerFinished:
    """Sent at the end. `num_dropped` counts what the SDK could not send, of all kinds."""

    num_dropped: int


@dataclass(frozen=True, slots=True)
class TrainerSettings:
    """Everything a trainer process is told. `last_step` None is endless."""

    identity: RunIdentity
    addresses: tuple[NodeAddress, ...]
    last_step: int | None


def run_trainer(settings: TrainerSettings, control: Connection, parent_pid: int) -> None:
    """Run one attempt until its last step, or until something arrives on `control`."""
    # Ctrl-C reaches every process of a terminal; the one that owns it says when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tie_to_parent(parent_pid)
    _Trainer(settings, control).run()


class _Trainer:
    def __init__(self, settings: TrainerSettings, control: Connection) -> None:
        self._settings = settings
        self._run = settings.identity.run
        self._control = control
        cluster = self._run.cluster
        self._init_sdk()
        self._workers = RolloutWorkers(settings.identity, settings.addresses)
        files = [GpuFile(item.gpu_path, cluster, item.node) for item in settings.addresses]
        self._ranks = TrainerRanks(settings.identity, settings.addresses)
        self._painter = Painter(cluster, files, self._pids())

    def run(self) -> None:
        self._control.send(TrainerReady())
        attempt = self._settings.identity.attempt
        with contextlib.suppress(StopRequestedError):
            for plan in plan_run(self._run, self._settings.last_step, attempt):
                self._run_step(plan)
            self._end()
        self._control.send(TrainerFinished(sum(longpole.stats().dropped.values())))

    def _pids(self) -> dict[Gpu, int]:
        """Return the process that holds each GPU's memory."""
        cluster = self._run.cluster
        held = {
            gpu: self._workers.pids[replica.node]
            for replica in cluster.replicas
            for gpu in replica.gpus
        }
        if cluster.trainer_gpu_count:
            held |= {gpu: self._ranks.pids[gpu.node] for gpu in cluster.trainer_gpus}
        return held

    def _end(self) -> None:
        """Send everything and say that the run is finished; windows still open stay open."""
        self._painter.close()
        self._workers.stop()
        self._ranks.stop()
        longpole.shutdown("finished", timeout_s=_FLUSH_SECONDS)

    def _init_sdk(self) -> None:
        identity, first = self._settings.identity, self._settings.addresses[0]
        model = self._run.reported_model
        longpole.init(
            identity.run_id,
            identity.project,
            name=identity.run_id,
            system=SYSTEM,
            system_version=SYSTEM_VERSION,
            algorithm=self._run.scenario.algorithm,
            mode=self._run.scenario.mode,
            role="controller",
            attempt=identity.attempt,
            gpu_count=self._run.cluster.gpu_count,
            model_name=model.name if self._run.scenario.tells_model else None,
            model_config=model.huggingface_config() if self._run.scenario.tells_model else None,
            staleness_bound=self._run.scenario.staleness_bound,
            staleness_basis="versions" if self._run.scenario.staleness_bound is not None else None,
            config=describe_config(self._run),
            endpoint=first.endpoint,
            host=first.host,
        )

    def _run_step(self, plan: StepPlan) -> None:
        is_apart = self._run.scenario.separate_pools
        if is_apart:
            self._workers.prepare(plan.step, plan.rollout, plan.next_s)
        else:
            self._workers.prepare(plan.step, plan.trajectories)
        self._painter.show(make_timeline(self._run, plan))
        seconds: dict[str, float] = {}
        started_ns = time.time_ns()
        if is_apart:
            self._workers.go(started_ns)
        with longpole.step(plan.step) as window:
            ended_s = 0.0
            for stage in plan.stages:
                self._sleep(stage.start_s - ended_s)
                seconds[stage.stage] = self._run_stage(plan, stage)
                ended_s = stage.end_s
            self._sleep(plan.duration_s - ended_s)
            window.set(
                tokens_total=plan.prompt_tokens + plan.response_tokens,
                tokens_prompt=plan.prompt_tokens,
                tokens_response=plan.response_tokens,
            )
        seconds["step"] = (time.time_ns() - started_ns) / 1e9
        scalars = step_scalars(self._run, plan, seconds)
        longpole.log(plan.step, scalars)
        self._control.send(StepFinished(plan.step, seconds, scalars["perf/throughput"]))
        ended_s = plan.duration_s
        for stage in plan.between:
            self._workers.prepare(plan.step, plan.validation)
            self._sleep(stage.start_s - ended_s)
            self._run_stage(plan, stage)
            ended_s = stage.end_s
        self._sleep(plan.next_s - ended_s)

    def _run_stage(self, plan: StepPlan, stage: StagePlan) -> float:
        """Run a stage and return its seconds."""
        started_ns = time.time_ns()
        if stage.phases:
            with longpole.stage(stage.stage, method=stage.method, bytes=stage.num_bytes):
                self._run_phases(stage)
        else:
            with longpole.stage(stage.stage), self._ranks.at(stage.stage, plan.step):
                is_apart = self._run.scenario.separate_pools
                if stage.stage in {GEN, TESTING} and not is_apart:
                    # Trajectories count from the start of the step: as planned, seen from here.
                    self._workers.go(time.time_ns() - round(stage.start_s * 1e9))
                self._sleep(stage.duration_s)
                self._meet_incident(plan, stage)
        return (time.time_ns() - started_ns) / 1e9

    def _run_phases(self, stage: StagePlan) -> None:
        for phase in stage.phases:
            with longpole.sync_phase(phase.phase):
                self._sleep(phase.end_s - phase.start_s)

    def _meet_incident(self, plan: StepPlan, stage: StagePlan) -> None:
        if plan.incident is None or stage is not plan.stages[-1]:
            return
        if plan.incident.kind == "crash":
            os._exit(CRASH_STATUS)
        self._sleep(None)

    def _sleep(self, seconds: float | None) -> None:
        """Sleep, for ever if None, unless asked to stop.

        Raises:
            StopRequestedError: The other end of `control` sent something or is gone.
        """
        if self._control.poll(None if seconds is None else max(0.0, seconds)):
            # Before the windows around are left: half a step is not a step.
            self._end()
            raise StopRequestedError
