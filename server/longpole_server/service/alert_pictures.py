"""Reads and draws what an alert stands on: a figure that its rule reads, over the newest steps."""

import logging
from collections.abc import Callable, Sequence

from longpole_server.alerts.detectors.leak import KvLeak
from longpole_server.alerts.detectors.leak_floors import list_floors
from longpole_server.alerts.history import StepPoint
from longpole_server.alerts.inputs import label_of, read_series, unit_of
from longpole_server.alerts.rule import Rule
from longpole_server.delivery.picture import Evidence, Picture, draw_evidence
from longpole_server.errors import StoreError
from longpole_server.model.alert import AlertEvent
from longpole_server.model.step import Step
from longpole_server.read import Reader
from longpole_server.read.alerts import AlertReader
from longpole_server.service.engine_steps import EngineStepsReader, RunPlace

_logger = logging.getLogger(__name__)

_NUM_STEPS = 80
_LEAST_POINTS = 3


class EvidencePainter:
    """Draws evidence from the store. Thread-safe.

    Args:
        reader: Reads steps and scalars.
        alert_reader: Reads what engines report.
        list_rules: Returns all rules.
    """

    def __init__(
        self, reader: Reader, alert_reader: AlertReader, list_rules: Callable[[], Sequence[Rule]]
    ) -> None:
        self._reader = reader
        self._engines = EngineStepsReader(alert_reader)
        self._list_rules = list_rules

    def paint(self, event: AlertEvent) -> Picture | None:
        """Return the picture of an event, None where there is nothing to see."""
        rule = next((each for each in self._list_rules() if each.rule_id == event.rule), None)
        if rule is None or not event.run_id or event.step is None:
            return None
        try:
            evidence = self._read(rule, event, event.step)
        except StoreError as error:
            _logger.warning("an alert is told without a picture: %s", error.message)
            return None
        return draw_evidence(evidence) if evidence is not None else None

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
