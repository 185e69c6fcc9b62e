"""What a step's samples say: a replica gone, rewards missing, weights that do not arrive."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from longpole_server.alerts.detectors.threshold import compare
from longpole_server.alerts.history import History, SampleCounts, StepPoint
from longpole_server.alerts.rule import Judgement, not_judgeable

# Newest steps that are looked at.
_PAST_STEPS = 60
# Of these the newest, in which a replica must have worked to be missed.
_RECENT_STEPS = 20
# Where others were scraped so often in a step, one that was not is silent.
_TELLING_SCRAPES = 3
_KEPT = "samples by replica"
_NO_SAMPLES = "samples are not reported"


def _list_reporting(points: Sequence[StepPoint]) -> list[set[str]]:
    """Return the replicas whose engine was scraped, of the steps long enough to tell."""
    scrapes = [
        {name: engine.num_scrapes for name, engine in point.engines.items()} for point in points
    ]
    return [
        {name for name, count in counts.items() if count}
        for counts in scrapes
        if max(counts.values(), default=0) >= _TELLING_SCRAPES
    ]


def _read_samples(point: StepPoint, replica: str) -> float:
    """Return how many samples of a step a replica made; kept beside the step for the next look."""
    figures = point.figures
    if _KEPT not in figures and point.samples is not None:
        figures[_KEPT] = float(len(point.samples.replicas))
        for each in point.samples.replicas:
            figures[f"{_KEPT}/{each.replica}"] = float(each.num_samples)
    return figures.get(f"{_KEPT}/{replica}") or 0.0


def _newest_samples(history: History) -> SampleCounts | None:
    return history.newest.samples if history.newest is not None else None


@dataclass(frozen=True, slots=True)
class ReplicaGone:
    """A rollout replica that worked in the steps before and finished nothing since.

    Where many replicas share few samples each has none now and then: it is missed only after so
    many steps without one that chance does not explain them.

    Attributes:
        fire: Steps in a row without a sample of it after which it is gone, at the earliest.
        min_steps: Steps in which it must have worked before.
        chance: That any replica of a run is called gone in a step by chance.
        most_steps: A replica that rests for so long now and then cannot be missed.
    """

    fire: float = 1.0
    clear: float = 0.0
    unit: str = "steps"
    min_steps: int = 3
    chance: float = 1e-5
    most_steps: int = 15
    reads: tuple[str, ...] = ("samples by replica", "series of each replica's engine")

    def judge(self, history: History) -> Judgement:
        """Judge one replica; the value is the number of steps without a sample of it.

        Where samples do not name their replica, an engine that reports nothing any more is gone.
        """
        counts, num_others = self._count(history)
        if not num_others:
            return not_judgeable(
                "samples do not name their replica, and no engine reports", self.unit
            )
        missing = next((at for at, count in enumerate(reversed(counts)) if count), len(counts))
        before = counts[: len(counts) - missing]
        if sum(count > 0 for count in before[-_RECENT_STEPS:]) < self.min_steps:
            return not_judgeable("it has not worked long enough to be missed", self.unit)
        first = next(at for at, count in enumerate(before) if count)
        patience = self._find_patience(before[first:], num_others + bool(missing))
        if patience > self.most_steps:
            return not_judgeable("it has samples now and then only", self.unit)
        words = {"others": str(num_others)}
        limit = max(self.fire, patience - 1.0)
        return compare(float(missing), limit, self.clear, self.unit, words=words)

    def _count(self, history: History) -> tuple[list[float], int]:
        """Return its samples in each step that tells, and how many replicas the newest names."""
        points = history.steps[-_PAST_STEPS:]
        named = [point for point in points if point.samples is not None]
        newest = named[-1].samples if named else None
        if newest is not None and newest.replicas:
            counts = [_read_samples(point, history.entity.id) for point in named]
            return counts, len(newest.replicas)
        reporting = _list_reporting(points)
        counts = [math.inf if history.entity.id in names else 0.0 for names in reporting]
        return counts, len(reporting[-1]) if reporting else 0

    def _find_patience(self, before: Sequence[float], num_replicas: int) -> int:
        """Return after how many steps without samples chance explains them no more."""
        absent = sum(not count for count in before) / len(before)
        mean = sum(before) / len(before)
        if math.isfinite(mean):
            # As many samples as a Poisson process would need to scatter like these.
            variance = sum((count - mean) ** 2 for count in before) / len(before)
            scatter = max(1.0, variance / mean)
            absent = max(absent, math.exp(-mean / scatter))
        if absent <= 0:
            return 0
        if absent >= 1:
            return self.most_steps + 1
        return math.ceil(math.log(self.chance / num_replicas) / math.log(absent))


@dataclass(frozen=True, slots=True)
class RewardTimeout:
    """Samples without a score, or with a zero score after scoring took as long as it may.

    Attributes:
        min_limit_s, limit_of_usual: The longest scoring of a step counts as a time limit when it
            took at least so many seconds, and so many times the usual.
    """

    fire: float = 0.20
    clear: float = 0.05
    unit: str = "ratio"
    min_limit_s: float = 5.0
    limit_of_usual: float = 3.0
    reads: tuple[str, ...] = ("reward of each sample", "score_s of each sample")

    def judge(self, history: History) -> Judgement:
        """Judge the newest step's samples."""
        count = _newest_samples(history)
        if count is None or not count.num_samples:
            return not_judgeable(_NO_SAMPLES, self.unit)
        scored_before = any(
            point.samples is not None and point.samples.num_scored for point in history.steps[-20:]
        )
        if not scored_before:
            return not_judgeable("samples come without rewards", self.unit)
        unscored, due = count.num_unscored, count.num_scored + count.num_unscored
        if not due:
            return not_judgeable("no sample was to have a reward", self.unit)
        at_limit = self._count_at_limit(history, count)
        words = {"unscored": str(unscored), "at_limit": str(at_limit)}
        if count.score_max_s is not None:
            words["score_max"] = f"{count.score_max_s:.3g} s"
        ratio = (unscored + at_limit) / due
        return compare(ratio, self.fire, self.clear, self.unit, words=words)

    def _count_at_limit(self, history: History, count: SampleCounts) -> int:
        """Count zeros that took the longest time; only where that is far beyond the usual one.

        A quick scorer takes about as long for every sample, right or wrong.
        """
        medians = [
            point.samples.score_median_s
            for point in history.steps[-20:]
            if point.samples is not None and point.samples.score_median_s is not None
        ]
        if not medians or count.score_max_s is None:
            return 0
        usual_s = statistics.median(medians)
        limit_s = max(self.min_limit_s, self.limit_of_usual * usual_s)
        return count.num_zero_at_max if count.score_max_s >= limit_s else 0


@dataclass(frozen=True, slots=True)
class SyncFailed:
    """The rollouts' policy version stands still though it used to advance.

    Attributes:
        fire: Steps in a row without a new version after which the sync has failed, at the least.
        patience_ratio: The same as a multiple of the longest time between versions so far.
        most_steps: Where versions stood still for longer before, they tell nothing.
    """

    fire: float = 3.0
    clear: float = 0.0
    unit: str = "steps"
    patience_ratio: float = 2.0
    most_steps: int = 20
    reads: tuple[str, ...] = ("policy version of each sample",)

    def judge(self, history: History) -> Judgement:
        """Judge the newest version of each step."""
        versions = [
            point.samples.version_max
            for point in history.steps
            if point.samples is not None and point.samples.version_max is not None
        ]
        if len(versions) < 5 or history.newest is None or history.newest.samples is None:
            return not_judgeable("policy versions of five steps are not known", self.unit)
        advances = [at for at, pair in enumerate(itertools.pairwise(versions), 1) if _grows(*pair)]
        # The time before the first advance began earlier than what is known.
        gaps = [after - before for before, after in itertools.pairwise([0, *advances])]
        longest = max(gaps, default=0)
        if len(advances) < 2 or longest > self.most_steps:
            return not_judgeable("versions do not advance with the steps in this run", self.unit)
        still = float(len(versions) - 1 - advances[-1])
        limit = self.fire if longest <= 1 else max(self.fire, self.patience_ratio * longest)
        return compare(still, limit, self.clear, self.unit, words={"version": str(versions[-1])})


def _grows(before: int, after: int) -> bool:
    return after > before


@dataclass(frozen=True, slots=True)
class Preempted:
    """Samples that the engine preempted because its cache was full."""

    fire: float = 0.10
    clear: float = 0.05
    unit: str = "ratio"
    reads: tuple[str, ...] = ("preemptions of each sample",)

    def judge(self, history: History) -> Judgement:
        """Judge the newest step's samples."""
        count = _newest_samples(history)
        if count is None or not count.num_reporting_preemptions:
            return not_judgeable("preemptions are not reported", self.unit)
        return compare(
            count.num_preempted / count.num_reporting_preemptions,
            self.fire,
            self.clear,
            self.unit,
        )
