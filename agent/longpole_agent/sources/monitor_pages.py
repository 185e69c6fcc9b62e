"""RL-Insight's page of a trainer: gauges that hold the last value of every metric, and no times.

A step's metrics are set one after another, so a page may show two steps at once. It is read until
it stands still; then all of it belongs to the step that one of its gauges names. A page that ends
with its trainer before that may have been cut off in the middle: if it names another step than
before, what has changed is that step's, and the rest tells nothing.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from longpole.conventions import rl_insight
from longpole.conventions.attributes import (
    ITERATION,
    LEGACY_EXPERIMENT,
    LEGACY_PROJECT,
    SERVICE_NAME,
    SYSTEM,
)
from longpole_agent.sources.exposition import Sample, read_page
from longpole_agent.sources.pages import FetchPage, PageGoneError
from longpole_agent.sources.source import Attributes, Point

_SETTLE_S = 0.2
_MAX_ROUNDS = 10
_MAX_GAUGES = 4000
_IDENTITY = (LEGACY_PROJECT, LEGACY_EXPERIMENT)
# In the order they are trusted: the fully asynchronous trainer logs by parameter version.
_STEP_GAUGES = (
    f"{rl_insight.GAUGE_PREFIX}fully_async_count_current_param_version",
    rl_insight.STEP_GAUGE,
)
# Prometheus' client shows these alone when it is asked so; what does not know how shows all.
STEP_PATH = "/metrics?" + "&".join(f"name[]={gauge}" for gauge in _STEP_GAUGES)
# Logged in some steps only: what stands there unchanged is of an earlier one. Two timers never
# agree to the last bit.
_OCCASIONAL = ("timing_s_", "timing_per_token_ms_", "val-", "val_")


@dataclass(slots=True)
class _Seen:
    step: int | None = None
    values: Mapping[str, float] = field(default_factory=dict[str, float])


class MonitorPage:
    """The page of one trainer, read again and again by one thread at a time.

    Args:
        fetch: Fetches pages.
        glance: Fetches of a page what names its step, at least.
        pause: Waits some seconds.
    """

    def __init__(
        self,
        fetch: FetchPage,
        glance: FetchPage,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._fetch = fetch
        self._glance = glance
        self._pause = pause
        self._seen: dict[Attributes, _Seen] = {}
        self._last: list[Sample] = []
        self.num_missed_steps = 0
        self.num_skipped = 0

    def read(self, address: str, ts_ns: int) -> list[Point]:
        """Return the points of a step that the page has not shown before, else none.

        Args:
            address: The page.
            ts_ns: The points' time.

        Raises:
            PageError: It cannot be had, not once.
        """
        samples, is_gone = self._read_once(address), False
        for _ in range(_MAX_ROUNDS):
            if samples == self._last:
                break
            self._last = samples
            self._pause(_SETTLE_S)
            try:
                samples = self._read_once(address)
            except PageGoneError:
                is_gone = True
                break
        else:
            # It never stands still; the next visit may be luckier.
            return []
        points: list[Point] = []
        for identity, values in self._group(samples).items():
            points += self._take_step(identity, values, ts_ns, is_gone)
        return points

    def has_moved(self, address: str) -> bool:
        """Whether the page names another step than when it was read last.

        Costs little: the page need not be made whole, nor be read so.

        Raises:
            PageError: It cannot be had.
        """
        samples = [
            sample
            for sample in islice(read_page(self._glance(address)), _MAX_GAUGES)
            if sample is not None and _is_metric(sample)
        ]
        steps = {identity: _find_step(values) for identity, values in self._group(samples).items()}
        return any(
            step is not None and step != self._seen.get(identity, _Seen()).step
            for identity, step in steps.items()
        )

    def _read_once(self, address: str) -> list[Sample]:
        kept: list[Sample] = []
        self.num_skipped = 0
        for sample in read_page(self._fetch(address)):
            if sample is None or len(kept) >= _MAX_GAUGES:
                self.num_skipped += 1
            elif _is_metric(sample):
                kept.append(sample)
        return kept

    def _group(self, samples: Sequence[Sample]) -> dict[Attributes, dict[str, float]]:
        grouped: dict[Attributes, dict[str, float]] = {}
        for sample in samples:
            labels = dict(sample.labels)
            identity = tuple((key, labels[key]) for key in _IDENTITY if labels.get(key))
            name = sample.name.removeprefix(rl_insight.GAUGE_PREFIX)
            grouped.setdefault(identity, {})[name] = sample.value
        return grouped

    def _take_step(
        self, identity: Attributes, values: Mapping[str, float], ts_ns: int, is_gone: bool
    ) -> list[Point]:
        step = _find_step(values)
        seen = self._seen.setdefault(identity, _Seen())
        changed = {name for name, value in values.items() if _differs(seen.values, name, value)}
        if step is None or (step == seen.step and not changed):
            return []
        is_new = step != seen.step
        if is_gone and not is_new:
            return []
        if is_new and seen.step is not None and step > seen.step + 1:
            self.num_missed_steps += step - seen.step - 1
        self._seen[identity] = _Seen(step, values)
        resource: Attributes = (
            (SERVICE_NAME, rl_insight.SERVICE),
            (SYSTEM, "verl"),
            *identity,
        )
        return [
            Point(
                rl_insight.restore_name(name),
                "",
                "gauge",
                ts_ns,
                value,
                ((ITERATION, step),),
                resource,
            )
            for name, value in values.items()
            if name in changed or (is_new and not is_gone and not name.startswith(_OCCASIONAL))
        ]


def _is_metric(sample: Sample) -> bool:
    return (
        sample.name.startswith(rl_insight.GAUGE_PREFIX)
        and not sample.name.startswith(rl_insight.DESCRIPTIVE_PREFIX)
        and all(key in _IDENTITY for key, _ in sample.labels)
    )


def _find_step(values: Mapping[str, float]) -> int | None:
    for gauge in _STEP_GAUGES:
        value = values.get(gauge.removeprefix(rl_insight.GAUGE_PREFIX))
        if value is not None and value == value and abs(value) < 2**53:
            return int(value)
    return None


def _differs(before: Mapping[str, float], name: str, value: float) -> bool:
    known = before.get(name)
    return known is None or (known != value and not (known != known and value != value))
