"""OTLP metrics: scalars of a run, series of its engines, and hardware."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, ResourceMetrics

from longpole.conventions.gpus import GPU_COLUMN_OF_METRIC
from longpole.ray_job import RAY_JOB_PREFIX
from longpole_server.errors import BadRequestError
from longpole_server.ingest.normalize.announcements import Announcer
from longpole_server.ingest.normalize.attempt_book import AttemptBook
from longpole_server.ingest.normalize.attempts import Attempt, Moments
from longpole_server.ingest.normalize.engines import is_copy, make_engine_sample, name_series
from longpole_server.ingest.normalize.hardware import HardwarePivot, NetworkRates, is_hardware
from longpole_server.ingest.normalize.jobs import ROLLOUT, JobBook
from longpole_server.ingest.normalize.lanes import WORKER, LanePlacer
from longpole_server.ingest.normalize.layout_book import LayoutBook, split_request
from longpole_server.ingest.normalize.layouts import Reading
from longpole_server.ingest.normalize.points import NumberPoint, label_name, read_points
from longpole_server.ingest.normalize.sender import CONTROLLER, Sender, SenderCache
from longpole_server.ingest.normalize.skips import SkipGuard
from longpole_server.ingest.normalize.spans import ITERATION_KEYS, get_iteration
from longpole_server.ingest.signals import parse_request
from longpole_server.model.records import UNKNOWN_STEP, MetricPoint, Records

_VALIDATION_TIMER = "timing_s/testing"


@dataclass(slots=True)
class _Found:
    """Points of one sender that belong to a run, before it is known which."""

    scalars: list[NumberPoint] = field(default_factory=list[NumberPoint])
    engine_points: list[tuple[str, NumberPoint]] = field(
        default_factory=list[tuple[str, NumberPoint]]
    )
    scope: str = ""


class MetricReader:
    """Adds the records of metrics requests.

    A scalar's step is the one its point names, else the step its run is in, else unknown.
    Histograms count only for engines, as the series Prometheus makes of them.

    Args:
        senders: Reads resources.
        book: Places batches.
        announcer: Announces runs and processes.
        jobs: Runs of senders that name none.
        lanes: Is told when steps end.
        layouts: Of what agents send.
    """

    def __init__(
        self,
        senders: SenderCache,
        book: AttemptBook,
        announcer: Announcer,
        jobs: JobBook,
        lanes: LanePlacer,
        layouts: LayoutBook,
    ) -> None:
        self._jobs = jobs
        self._lanes = lanes
        self._senders = senders
        self._book = book
        self._announcer = announcer
        self._rates = NetworkRates()
        self._layouts = layouts
        self.guard = SkipGuard("metric")
        self.num_ignored = 0

    def add(self, body: bytes, received_ns: int, into: Records) -> None:
        """Add the records of a request in protobuf.

        Raises:
            BadRequestError: The body is no such request.
        """
        parts = split_request(body)
        items = self._read_parts(body, parts, received_ns)
        pivot = HardwarePivot(self._rates)
        for item in items:
            with self.guard:
                if isinstance(item, Reading):
                    self.num_ignored += item.add_to(pivot, received_ns)
                else:
                    self._add_resource(item, received_ns, pivot, into)
        pivot.finish(into)
        for part, item in zip(parts, items, strict=False):
            if isinstance(item, ResourceMetrics):
                sender = self._senders.get(item.resource)
                if sender.is_agent:
                    self._layouts.learn(part, sender, received_ns)

    def _read_parts(
        self, body: bytes, parts: Sequence[bytes], received_ns: int
    ) -> Sequence[Reading | ResourceMetrics]:
        readings = [self._layouts.find(part, received_ns) for part in parts]
        if not any(readings):
            request = cast("ExportMetricsServiceRequest", parse_request("metrics", body))
            return list(request.resource_metrics)
        try:
            return [
                reading or ResourceMetrics.FromString(part)
                for part, reading in zip(parts, readings, strict=True)
            ]
        except DecodeError as error:
            raise BadRequestError("The body is not an OTLP metrics request.") from error

    def _add_resource(
        self,
        resource_metrics: ResourceMetrics,
        received_ns: int,
        pivot: HardwarePivot,
        into: Records,
    ) -> None:
        sender = self._senders.get(resource_metrics.resource)
        found = _Found()
        for scope_metrics in resource_metrics.scope_metrics:
            found.scope = found.scope or scope_metrics.scope.name
            for metric in scope_metrics.metrics:
                with self.guard:
                    self._sort(metric, sender, received_ns, pivot, found)
        if found.scalars or found.engine_points:
            self._attribute(found, sender, received_ns, into)

    def _sort(
        self,
        metric: Metric,
        sender: Sender,
        received_ns: int,
        pivot: HardwarePivot,
        found: _Found,
    ) -> None:
        kind = metric.WhichOneof("data")
        if kind == "gauge" and sender.is_agent and metric.name in GPU_COLUMN_OF_METRIC:
            self.num_ignored += pivot.add_gauge(metric, sender, received_ns)
            return
        is_histogram = kind == "histogram"
        for point in read_points(metric, received_ns):
            names_step = get_iteration(point.values) is not None
            if is_hardware(point.name) and not names_step:
                self.num_ignored += not pivot.add(point, sender)
                continue
            series = name_series(point.name, is_total=point.is_total)
            if sender.is_agent or point.value is None or (is_histogram and series is None):
                self.num_ignored += 1
                continue
            if series is not None and is_copy(point.values):
                self.num_ignored += 1
                continue
            if series is not None:
                found.engine_points.append((series, point))
            # A trainer that logs its engines' numbers once a step logs them as scalars too.
            if series is None or names_step:
                found.scalars.append(point)

    def _attribute(self, found: _Found, sender: Sender, received_ns: int, into: Records) -> None:
        """Add the points of a run, of one that a job leads to, or keep them until it does."""
        if sender.is_monitor and sender.names_run:
            self._add_monitor(found, sender, received_ns, into)
            return
        if sender.names_run or not sender.job or sender.role == CONTROLLER:
            attempt = self._add_run_points(found, sender, received_ns, into)
            if not sender.is_monitor:
                self._jobs.learn(sender.job, attempt.run_id, into, from_process=True)
            return
        run_id = self._jobs.find(sender.job)
        if run_id is None and not sender.job.startswith(RAY_JOB_PREFIX):
            # A process by itself: some run's engine, if there is but one run beside it.
            run_id = self._book.find_lone_run(sender.host, received_ns)
        if run_id is None:
            weight = len(found.scalars) + len(found.engine_points)
            late = partial(self._attribute, found, sender, received_ns)
            self._jobs.wait(sender.job, weight, late)
            return
        member = self._jobs.adopt(sender, run_id, sender.role or ROLLOUT)
        self._add_run_points(found, member, received_ns, into)

    def _add_monitor(self, found: _Found, sender: Sender, received_ns: int, into: Records) -> None:
        """Add what a trainer's page shows; it leads the run where no process of it does."""
        leads = not (
            self._jobs.has_process(sender.job)
            or self._book.has_controller(sender.run_id, received_ns)
        )
        monitor = self._jobs.adopt(sender, sender.run_id, CONTROLLER if leads else WORKER)
        attempt = self._add_run_points(found, monitor, received_ns, into)
        self._jobs.learn(sender.job, attempt.run_id, into)
        ends: dict[int, int] = {}
        validated: set[int] = set()
        for point in found.scalars:
            step = get_iteration(point.values)
            if step is not None:
                ends.setdefault(step, point.ts_ns)
                if point.name == _VALIDATION_TIMER:
                    validated.add(step)
        for step, end_ns in sorted(ends.items()):
            attempt.note_step(step)
            # After the update of a step that ends in validation, generation is still this step's.
            self._lanes.note_end(
                attempt.run_id, attempt.number, step, end_ns, into, is_exact=step in validated
            )

    def _add_run_points(
        self, found: _Found, sender: Sender, received_ns: int, into: Records
    ) -> Attempt:
        times = [point.ts_ns for point in found.scalars]
        times += [point.ts_ns for _, point in found.engine_points]
        moments = Moments.collect(received_ns, times)
        attempt = self._book.place(sender, moments)
        names_step = any(get_iteration(point.values) is not None for point in found.scalars)
        if names_step or (found.scalars and sender.speaks_rl):
            is_leader = self._book.is_leader(sender, attempt)
            self._announcer.announce_run(attempt, sender, moments, into, is_leader=is_leader)
        if names_step or sender.speaks_rl:
            self._announcer.see_process(attempt, sender, found.scope, moments, into)
        for point in found.scalars:
            into.metric_points.append(_make_point(point, attempt))
        for series, point in found.engine_points:
            value = 0.0 if point.value is None else float(point.value)
            into.engine_samples.append(make_engine_sample(series, point, value, attempt, sender))
        return attempt


def _make_point(point: NumberPoint, attempt: Attempt) -> MetricPoint:
    step = get_iteration(point.values)
    if step is None:
        step = UNKNOWN_STEP if attempt.step is None else attempt.step
    return MetricPoint(
        run_id=attempt.run_id,
        attempt=attempt.number,
        step=step,
        name=label_name(point.name, point.values, ITERATION_KEYS),
        # NaN stays: that a loss became NaN is what a reader must see.
        value=0.0 if point.value is None else float(point.value),
        ts_ns=point.ts_ns,
    )
