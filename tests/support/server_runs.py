"""Records of pretend runs, piece by piece, for tests of the service, the API and the programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from longpole_server.model.records import (
    UNKNOWN_STEP,
    GpuSample,
    MetricPoint,
    ProcessSeen,
    Records,
    RunEnd,
    RunStart,
    StageSpan,
    StageStart,
    TrajectoryRecord,
    TrajectorySpan,
)

S = 1_000_000_000
BEGIN_NS = 1_700_000_000 * S
# Stages of a plain step, seconds from its start: 10 s, of which 0.5 s belong to no stage.
PLAIN_STAGES = (
    ("gen", 0.0, 6.0),
    ("reward", 6.0, 6.5),
    ("old_log_prob", 6.5, 7.5),
    ("update_actor", 7.5, 9.0),
    ("update_weights", 9.0, 9.5),
)
PLAIN_STEP_S = 10.0


@dataclass
class RunScript:
    """One attempt of one run, whose facts a test asks for as it needs them.

    All times are seconds after `begin_ns`.
    """

    run_id: str
    attempt: int = 1
    begin_ns: int = BEGIN_NS
    pid: int = 4_000
    host: str = "node-0"
    gpu_ids: tuple[str, ...] = ()
    _span_count: int = field(default=0)

    def at(self, seconds: float) -> int:
        """Return a time in nanoseconds."""
        return self.begin_ns + round(seconds * S)

    def start(self, **description: Any) -> Records:
        """The announcement of the attempt."""
        start = RunStart(
            self.run_id,
            self.attempt,
            self.begin_ns,
            host=self.host,
            pid=self.pid,
            declared=True,
            **description,
        )
        return Records(run_starts=[start], processes=[self.process(0.0)])

    def process(self, seen_s: float) -> ProcessSeen:
        """A sighting of the controller."""
        return ProcessSeen(
            self.run_id,
            self.attempt,
            self.host,
            self.pid,
            "controller",
            self.at(seen_s),
            gpu_ids=self.gpu_ids,
        )

    def end(self, at_s: float, status: str = "finished") -> Records:
        """The end of the attempt."""
        return Records(run_ends=[RunEnd(self.run_id, self.attempt, self.at(at_s), status)])

    def loop(
        self, step: int, start_s: float, length_s: float = PLAIN_STEP_S, tokens: int | None = 1_000
    ) -> Records:
        """The span of a whole step."""
        span = self._span(step, "step", "rl.loop", start_s, start_s + length_s, "controller")
        return Records(
            stage_spans=[replace(span, is_loop=True, tokens_total=tokens)],
            processes=[self.process(start_s + length_s)],
        )

    def stages(
        self,
        step: int,
        start_s: float,
        stages: Sequence[tuple[str, float, float]] = PLAIN_STAGES,
        role: str = "controller",
        pid: int | None = None,
    ) -> Records:
        """Stage spans of a step."""
        return Records(
            stage_spans=[
                self._span(step, name, name, start_s + begin_s, start_s + end_s, role, pid)
                for name, begin_s, end_s in stages
            ]
        )

    def whole_step(self, step: int, start_s: float) -> Records:
        """A plain step: stages and loop."""
        return merge(self.stages(step, start_s), self.loop(step, start_s))

    def scalars(self, step: int, at_s: float, values: Mapping[str, float]) -> Records:
        """Logged metrics of a step."""
        return Records(
            metric_points=[
                MetricPoint(self.run_id, self.attempt, step, name, value, self.at(at_s))
                for name, value in values.items()
            ]
        )

    def announce(
        self, step: int, stage: str, start_s: float, seen_s: float | None = None
    ) -> Records:
        """The start of a window, or a heartbeat of it."""
        start = StageStart(
            self.run_id,
            self.attempt,
            step,
            stage,
            self.at(start_s),
            self.at(start_s if seen_s is None else seen_s),
            self.host,
            self.pid,
            "controller",
        )
        return Records(stage_starts=[start])

    def sample(
        self,
        trajectory_id: str,
        start_s: float,
        end_s: float,
        step: int = UNKNOWN_STEP,
        group_id: str | None = None,
        output_tokens: int | None = 100,
        replica: str | None = "replica-0",
    ) -> Records:
        """A training sample with one generation."""
        record = TrajectoryRecord(
            self.run_id,
            self.attempt,
            step,
            trajectory_id,
            self.at(start_s),
            self.at(end_s),
            group_id=group_id,
            generate_s=end_s - start_s,
            input_tokens=50,
            output_tokens=output_tokens,
            replica=replica,
            span_id=f"{trajectory_id}-span",
        )
        part = TrajectorySpan(
            self.run_id,
            self.attempt,
            trajectory_id,
            "generate",
            "rl.generate",
            self.at(start_s),
            self.at(end_s),
            f"{trajectory_id}-part",
            turn=1,
        )
        return Records(trajectories=[record], trajectory_spans=[part])

    def _span(
        self,
        step: int,
        stage: str,
        name: str,
        start_s: float,
        end_s: float,
        role: str,
        pid: int | None = None,
    ) -> StageSpan:
        identity = f"{self.run_id}/{self.attempt}/{step}/{name}/{start_s}/{pid or self.pid}"
        return StageSpan(
            self.run_id,
            self.attempt,
            step,
            stage,
            name,
            self.at(start_s),
            self.at(end_s),
            trace_id=f"trace of {identity}",
            span_id=f"span of {identity}",
            role=role,
            host=self.host,
            pid=pid or self.pid,
        )


def gpu_samples(
    uuid: str, index: int, start_s: float, end_s: float, ratio: float, host: str = "node-0"
) -> Records:
    """Samples of one GPU, one a second."""
    return Records(
        gpu_samples=[
            GpuSample(
                host,
                uuid,
                index,
                BEGIN_NS + second * S,
                "NVIDIA H100 80GB HBM3",
                utilization_ratio=ratio,
                power_watts=500.0,
            )
            for second in range(round(start_s), round(end_s))
        ]
    )


def merge(*batches: Records) -> Records:
    """Return one batch that holds all."""
    merged = Records()
    for batch in batches:
        for name in Records.__slots__:
            getattr(merged, name).extend(getattr(batch, name))
    return merged
