"""Reads and draws what an alert stands on: a figure that its rule reads, over the newest steps."""

import logging
from collections.abc import Callable, Mapping, Sequence

from longpole_server.alerts.detectors.leak import KvLeak
from longpole_server.alerts.detectors.leak_floors import list_floors
from longpole_server.alerts.history import GPU, StepPoint
from longpole_server.alerts.inputs import label_of, read_series, unit_of
from longpole_server.alerts.rule import Rule
from longpole_server.delivery.picture import Evidence, Picture, draw_evidence
from longpole_server.errors import StoreError
from longpole_server.model.alert import AlertEvent
from longpole_server.model.step import Step
from longpole_server.read import Reader
from longpole_server.read.alerts import AlertReader, PastGpuRow
from longpole_server.service.engine_steps import EngineStepsReader, RunPlace

_logger = logging.getLogger(__name__)

_NUM_STEPS = 80
_GPU_MINUTES = 60
_NS_PER_MINUTE = 60 * 10**9
_LEAST_POINTS = 3


def _count_samples(row: PastGpuRow) -> float | None:
    return float(row.num_samples)


def _find_throttled(row: PastGpuRow) -> float | None:
    return row.num_throttled / row.num_with_reasons if row.num_with_reasons else None


def _find_busy(row: PastGpuRow) -> float | None:
    return row.utilization_ratio if row.sm_active_ratio is None else row.sm_active_ratio


# What is drawn of a GPU, by rule: how it is read, its name, its unit.
_BUSY = (_find_busy, "how busy it was", "ratio")
_OF_GPU: Mapping[str, tuple[Callable[[PastGpuRow], float | None], str, str]] = {
    "gpu.lost": (_count_samples, "samples a minute", "samples"),
    "gpu.throttled": (_find_throttled, "part of the time that it was held back", "ratio"),
}


class EvidencePainter:
    """Draws evidence from the store. Thread-safe.

    Args:
        reader: Reads steps and scalars.
        alert_reader: Reads what engines report.
        list_rules: Returns all rules.
        list_past: Returns what the rule of an alert saw lately, by time.
    """

    def __init__(
        self,
        reader: Reader,
        alert_reader: AlertReader,
        list_rules: Callable[[], Sequence[Rule]],
        list_past: Callable[[AlertEvent], Sequence[tuple[int, float]]] = lambda _: (),
    ) -> None:
        self._list_past = list_past
        self._alert_reader = alert_reader
        self._reader = reader
        self._engines = EngineStepsReader(alert_reader)
        self._list_rules = list_rules

    def paint(self, event: AlertEvent) -> Picture | None:
        """Return the picture of an event, None where there is nothing to see."""
        rule = next((each for each in self._list_rules() if each.rule_id == event.rule), None)
        if rule is None:
            return None
        try:
            if rule.trigger == "time":
                evidence = self._read_minutes(rule, event)
            elif event.run_id and event.step is not None:
                evidence = self._read(rule, event, event.step)
            else:
                return None
        except StoreError as error:
            _logger.warning("an alert is told without a picture: %s", error.message)
            return None
        return draw_evidence(evidence) if evidence is not None else None

    def _read_minutes(self, rule: Rule, event: AlertEvent) -> Evidence | None:
        """Return what a rule of time saw; of a GPU, what is stored of it."""
        is_gpu = event.entity_kind == GPU
        title, unit, threshold = rule.title, event.unit, event.threshold
        if is_gpu:
            read, name, unit = _OF_GPU.get(event.rule, _BUSY)
            title = f"{rule.title}: {name}"
            threshold = event.threshold if unit == event.unit else None
            values = self._list_gpu_minutes(event, read)
        else:
            values = self._list_past(event)
        if len(values) < _LEAST_POINTS:
            return None
        return Evidence(
            title,
            [(ts_ns - event.ts_ns) / _NS_PER_MINUTE for ts_ns, _ in values],
            [value for _, value in values],
            unit,
            threshold,
            event.baseline if not is_gpu or unit == event.unit else None,
            (event.started_ns - event.ts_ns) / _NS_PER_MINUTE,
            "minute",
        )

    def _list_gpu_minutes(
        self, event: AlertEvent, read: Callable[[PastGpuRow], float | None]
    ) -> list[tuple[int, float]]:
        """Return a figure of a GPU in each minute before an alert; a silent one has no sample."""
        first, last = (
            (event.ts_ns // _NS_PER_MINUTE) - _GPU_MINUTES,
            event.ts_ns // _NS_PER_MINUTE,
        )
        span_ns = (first * _NS_PER_MINUTE, event.ts_ns)
        rows = self._alert_reader.list_gpu_minutes([event.entity_id], span_ns)
        known = {row.minute: read(row) for row in rows}
        if not known:
            return []
        is_counted = read is _count_samples
        found: list[tuple[int, float]] = []
        for minute in range(min(known), last + 1):
            value = known.get(minute, 0.0 if is_counted else None)
            if value is not None:
                found.append((minute * _NS_PER_MINUTE, value))
        return found

    def _read(self, rule: Rule, event: AlertEvent, last: int) -> Evidence | None:
        steps = self._reader.list_steps(event.run_id, max(0, last - _NUM_STEPS), last)
        closed = [step for step in steps if step.closed_by is not None]
        if not closed:
            return None
        own = [step for step in closed if step.attempt == closed[-1].attempt]
        if isinstance(rule.detector, KvLeak):
            return self._read_floor(rule, event, own)
        scalars = self._reader.list_scalars(
            event.run_id, [(step.attempt, step.step) for step in own]
        )
        points = [StepPoint(step, scalars.get((step.attempt, step.step), {})) for step in own]
        for name in rule.detector.reads:
            series = read_series(points, name)
            if len(series) >= _LEAST_POINTS:
                # Limits are drawn where they are of the figure itself.
                is_own = name == rule.detector.reads[0] and event.unit == unit_of(name)
                return Evidence(
                    f"{rule.title}: {label_of(name)}",
                    series.steps,
                    series.values,
                    unit_of(name),
                    event.threshold if is_own else None,
                    event.baseline if is_own else None,
                    event.started_step,
                )
        return None

    def _read_floor(self, rule: Rule, event: AlertEvent, steps: Sequence[Step]) -> Evidence | None:
        if not steps:
            return None
        engines = self._engines.read(event.run_id, steps[0].attempt, steps, RunPlace(()))
        points = [StepPoint(step, engines=engines.get(step.step, {})) for step in steps]
        floors = list_floors(points, event.entity_id, None)
        if not floors:
            return None
        return Evidence(
            f"{rule.title}: KV pool held at rest by {event.entity_id}",
            [point.step for point in floors[0].points],
            [point.ratio for point in floors[0].points],
            "ratio",
            event.threshold,
            event.baseline,
            event.started_step,
        )
