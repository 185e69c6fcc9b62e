"""How old the policy is that made the samples: against the bound, held at it, drifting, dropped."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from longpole_server.alerts.detectors.lag import (
    Lag,
    basis_of,
    find_side,
    is_comparable,
    list_lags,
    read_lag,
)
from longpole_server.alerts.detectors.threshold import compare
from longpole_server.alerts.detectors.trends import measure_shift, measure_trend
from longpole_server.alerts.history import History
from longpole_server.alerts.inputs import measure_spread, read_figure, read_newest
from longpole_server.alerts.rule import Judgement, not_judgeable
from longpole_server.analysis.stale_drops import (
    DROPPED_TOTAL,
    GENERATED_TOTAL,
    count_by_samples,
    count_by_totals,
)
from longpole_server.analysis.stale_drops import StaleDrops as DropCount
from longpole_server.model.alert import AlertEvidence

# Newest steps that are looked at.
_PAST_STEPS = 60
# Steps with a lag that make a level, and the part of a rise that counts as all of it.
_STRETCH, _AS_HIGH = 4, 0.8
# One-sided p-value at which a baseline rises.
_RISES = 0.001
_VERSIONS = "versions"
_NOT_REPORTED = "staleness is not reported"
_READS = (
    "staleness_max",
    "staleness_mean",
    "policy versions of each sample",
    "staleness bound and basis of the run",
)


@dataclass(frozen=True, slots=True)
class BoundExceeded:
    """Samples are older than the configured bound allows, in the bound's own basis."""

    fire: float | None = None
    clear: float | None = None
    unit: str = _VERSIONS
    reads: tuple[str, ...] = _READS

    def judge(self, history: History) -> Judgement:
        """Judge the newest step."""
        run, newest = history.run, history.newest
        lag = read_lag(newest, run) if newest is not None else None
        if lag is None or run is None:
            return not_judgeable(_NOT_REPORTED, self.unit)
        if run.staleness_bound is None:
            return not_judgeable("the run names no staleness bound", self.unit)
        basis = basis_of(run)
        if not is_comparable(lag, run):
            return not_judgeable(
                f"the bound is counted in {basis}, the lag in {lag.basis}", self.unit
            )
        # A mean beyond the bound says the same of the largest, where only the mean is known.
        value = lag.largest if lag.largest is not None else lag.mean
        if value is None:
            return not_judgeable(_NOT_REPORTED, self.unit)
        bound = run.staleness_bound
        judgement = compare(value, bound, bound, basis, words={"basis": basis})
        return _name_side(judgement, history)


@dataclass(frozen=True, slots=True)
class StalenessDrift:
    """Lag that is held at a bound of two or more versions, or that drifts up from its own start.

    Attributes:
        held_steps: Steps in a row at the bound that count as held.
        held_mean_ratio: The mean lag must be at so much of the bound as well: the oldest sample
            alone touches it in many healthy runs.
        baseline_skip, baseline_steps: First steps of the attempt that are left out, while buffers
            fill, and those with a lag after them that are its own baseline.
        min_change: Versions above the baseline that count.
        change_ratio: The same as a part of the baseline.
        deviations: Of the baseline's own scatter.
        alpha: Chance that lags as old as these come from the baseline (Mann-Whitney).
    """

    held_steps: int = 10
    held_mean_ratio: float = 0.7
    baseline_skip: int = 10
    baseline_steps: int = 20
    min_change: float = 1.0
    change_ratio: float = 0.5
    deviations: float = 4.0
    alpha: float = 0.001
    fire: float | None = None
    clear: float | None = None
    unit: str = _VERSIONS
    reads: tuple[str, ...] = (*_READS, "rollout_paused_ratio", "trainer_wait", "rollout_wait")

    def judge(self, history: History) -> Judgement:
        """Judge the newest steps."""
        run, newest = history.run, history.newest
        if run is None or newest is None or read_lag(newest, run) is None:
            return not_judgeable(_NOT_REPORTED, self.unit)
        lags = list_lags(history.steps[-_PAST_STEPS:], run)
        if len(lags) < self.held_steps:
            # Logged now and then.
            lags = list_lags(history.steps, run)
        lags = lags[-self.held_steps :]
        recent = [lag for _, lag in lags]
        if len(recent) < self.held_steps:
            return not_judgeable(f"{len(recent)} of {self.held_steps} steps are known", self.unit)
        words = {"basis": basis_of(run)}
        bound, held = run.staleness_bound, None
        if bound is not None and bound >= 2 and basis_of(run) == _VERSIONS:
            held = self._judge_held(recent, bound, words)
            if held is not None and held.firing:
                return _name_side(held, history)
        drift = self._judge_drift(history, lags, words)
        if drift is None and held is not None:
            return held
        if drift is None:
            needed = self.baseline_skip + self.baseline_steps + self.held_steps
            return not_judgeable(f"its own baseline needs {needed} steps of the attempt", self.unit)
        return _name_side(drift, history)

    def _judge_held(
        self, recent: Sequence[Lag], bound: float, words: dict[str, str]
    ) -> Judgement | None:
        largest = [lag.largest for lag in recent if lag.largest is not None]
        means = [lag.mean for lag in recent if lag.mean is not None]
        if len(largest) < len(recent):
            # Only a mean is known: at the bound itself it holds every sample.
            largest = means
        if len(largest) < len(recent):
            return None
        if means and statistics.median(means) < self.held_mean_ratio * bound:
            return None
        said = {**words, "what": f"held at the bound of {bound:g} for {len(recent)} steps"}
        # Fires at the bound itself: `compare` asks for more than its limit.
        tolerance = min(0.5, 0.1 * bound)
        # One step in which fewer samples were old is no release.
        lowest = sorted(largest)[1]
        if lowest > bound:
            # That is more than held, and a rule of its own.
            return None
        return compare(
            lowest, bound - tolerance, bound - 1.0, self.unit, baseline=bound, words=said
        )

    def _judge_drift(
        self, history: History, lags: Sequence[tuple[int, Lag]], words: dict[str, str]
    ) -> Judgement | None:
        """Judge the newest lags by those of the attempt's own steady beginning."""
        recent = [lag for _, lag in lags]
        opening = self._list_baseline(history, lags[0][0])
        # The mean says more than the oldest sample; both sides must have it.
        by_mean = all(lag.mean is not None for lag in [*recent, *opening])
        usual = _values(opening, by_mean=by_mean)
        now = _values(recent, by_mean=by_mean)
        if len(usual) < self.baseline_steps or len(now) < len(recent):
            return None
        middle, deviation = measure_spread(usual)
        if measure_trend(range(len(usual)), usual).p_value <= _RISES:
            # Queues still filled: where that led is what it is used to.
            middle = max(middle, statistics.median(usual[-_STRETCH:]))
        stray = self.deviations * 1.2533 * deviation / math.sqrt(len(now))
        limit = middle + max(self.min_change, self.change_ratio * middle, stray)
        value = statistics.median(now)
        said = {**words, "what": f"up from {middle:.3g} in its first steady steps"}
        judgement = compare(
            value, limit, (middle + limit) / 2, words["basis"], baseline=middle, words=said
        )
        if not judgement.firing:
            return judgement
        quiet = None
        if measure_shift(usual, now) > self.alpha:
            quiet = "the newest lags scatter as widely as its own baseline"
        elif _swings(self._list_before(history, lags[0][0], by_mean=by_mean), value, middle):
            quiet = "it was as high in the attempt's first steps and came back by itself: it swings"
        if quiet is None:
            return judgement
        return Judgement(False, False, value, limit, words["basis"], middle, quiet_because=quiet)

    def _list_before(self, history: History, until_step: int, *, by_mean: bool) -> list[float]:
        """Return the lags of the attempt's first steps, warm-up and all."""
        opening = list_lags(history.opening or history.steps, history.run)
        before = [lag for step, lag in opening if step < until_step]
        return _values(before, by_mean=by_mean)

    def _list_baseline(self, history: History, until_step: int) -> list[Lag]:
        """Return the lags of the attempt's first steady steps, as far back as they are known."""
        opening = history.opening or history.steps
        first = history.run.first_step if history.run is not None else None
        begun = opening[0].step.step if first is None else first
        found = list_lags(opening, history.run)
        if len(found) < self.baseline_skip + self.baseline_steps:
            # Logged now and then: later steps are needed as well.
            known = {step for step, _ in found}
            every = list_lags(history.steps, history.run)
            found += [each for each in every if each[0] not in known]
        steady = [lag for step, lag in found if begun + self.baseline_skip <= step < until_step]
        return steady[: self.baseline_steps]


def _name_side(judgement: Judgement, history: History) -> Judgement:
    """Add which side is the cause to what fires: nobody is told of what is quiet."""
    if not judgement.firing:
        return judgement
    return replace(judgement, words={**judgement.words, "side": find_side(history)})


def _swings(before: Sequence[float], value: float, usual: float) -> bool:
    """Tell whether a lag was as high before, for a stretch, and half of the way down after that."""
    half, was_there = (value + usual) / 2, False
    for end in range(_STRETCH, len(before) + 1):
        level = statistics.median(before[end - _STRETCH : end])
        if was_there and level <= half:
            return True
        was_there = was_there or level >= usual + _AS_HIGH * (value - usual)
    return False


def _values(lags: Sequence[Lag], *, by_mean: bool) -> list[float]:
    return [
        value
        for lag in lags
        if (value := lag.mean if by_mean else lag.largest) is not None and math.isfinite(value)
    ]


@dataclass(frozen=True, slots=True)
class StaleDrops:
    """Generated samples that are thrown away because they are too old.

    Over several steps together: where few samples make a step, one dropped group is much of it.

    Attributes:
        steps: Newest steps that are added up.
    """

    fire: float = 0.20
    clear: float = 0.15
    unit: str = "ratio"
    steps: int = 3
    reads: tuple[str, ...] = (
        "stale_drop_ratio",
        "status of each sample",
        DROPPED_TOTAL,
        GENERATED_TOTAL,
    )

    def judge(self, history: History) -> Judgement:
        """Judge the newest steps: as it is logged, else by counters, else as the samples tell."""
        value = read_newest(history, "stale_drop_ratio")
        evidence: tuple[AlertEvidence, ...] = ()
        if value is None:
            counted = _count_drops(history, self.steps)
            if counted is None:
                return not_judgeable("dropped samples are not reported", self.unit)
            value = counted.ratio
            evidence = (
                AlertEvidence("dropped_stale", counted.dropped, "samples"),
                AlertEvidence("generated", counted.generated, "samples"),
            )
        judgement = compare(value, self.fire, self.clear, self.unit)
        return _name_side(replace(judgement, evidence=evidence), history)


def _count_drops(history: History, num_steps: int) -> DropCount | None:
    """Return the samples dropped and generated in the newest steps, None when nobody says."""
    steps = history.steps[-num_steps - 1 :]
    counted = count_by_totals(
        [(read_figure(at, DROPPED_TOTAL), read_figure(at, GENERATED_TOTAL)) for at in steps],
        since_resumed=True,
    )
    if counted is not None:
        return counted
    counts = [point.samples for point in steps[-num_steps:] if point.samples is not None]
    if history.newest is None or history.newest.samples is None:
        return None
    return count_by_samples(
        float(sum(count.num_dropped_stale for count in counts)),
        float(sum(count.num_samples for count in counts)),
        ever_dropped=any(
            point.samples is not None and point.samples.num_dropped_stale
            for point in history.steps[-_PAST_STEPS:]
        ),
    )
