"""What a step's samples say: a replica gone, rewards missing, weights that do not arrive."""

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from longpole_server.alerts.detectors.threshold import compare
from longpole_server.alerts.history import History, SampleCounts, StepPoint
from longpole_server.alerts.rule import Judgement, not_judgeable

# Newest steps that are looked at.
_PAST_STEPS = 60
# Where others were scraped so often in a step, one that was not is silent.
_TELLING_SCRAPES = 3
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


def _newest_samples(history: History) -> SampleCounts | None:
    return history.newest.samples if history.newest is not None else None


@dataclass(frozen=True, slots=True)
class ReplicaGone:
    """A rollout replica that worked in the steps before and finished nothing since.

    Attributes:
        fire: Steps in a row without a sample of it after which it is gone.
        min_steps: Steps in which it must have worked before.
    """

    fire: float = 1.0
    clear: float = 0.0
    unit: str = "steps"
    min_steps: int = 3
    reads: tuple[str, ...] = ("samples by replica", "series of each replica's engine")

    def judge(self, history: History) -> Judgement:
        """Judge one replica; the value is the number of steps without a sample of it.

        Where samples do not name their replica, an engine that reports nothing any more is gone.
        """
        points = history.steps[-_PAST_STEPS:]
        named = [
            {each.replica for each in point.samples.replicas}
            for point in points
            if point.samples is not None
        ]
        if not named or not named[-1]:
            named = _list_reporting(points)
        if not named or not named[-1]:
            return not_judgeable(
                "samples do not name their replica, and no engine reports", self.unit
            )
        working = [history.entity.id in names for names in named[-20:]]
        if sum(working) < self.min_steps:
            return not_judgeable("it has not worked long enough to be missed", self.unit)
        missing = 0
        for worked in reversed(working):
            if worked:
                break
            missing += 1
        others = len(named[-1])
        return compare(
            float(missing), self.fire, self.clear, self.unit, words={"others": str(others)}
        )


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
        unscored = count.num_samples - count.num_scored
        at_limit = self._count_at_limit(history, count)
        words = {"unscored": str(unscored), "at_limit": str(at_limit)}
        if count.score_max_s is not None:
            words["score_max"] = f"{count.score_max_s:.3g} s"
        ratio = (unscored + at_limit) / count.num_samples
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
    """The rollouts' policy version stands still though it used to advance with the steps.

    Attributes:
        fire: Steps in a row without a new version after which the sync has failed.
    """

    fire: float = 3.0
    clear: float = 0.0
    unit: str = "steps"
    reads: tuple[str, ...] = ("policy version of each sample",)

    def judge(self, history: History) -> Judgement:
        """Judge the newest version of each step."""
        versions = [
            point.samples.version_max
            for point in history.steps[-_PAST_STEPS:]
            if point.samples is not None and point.samples.version_max is not None
        ]
        if len(versions) < 5 or history.newest is None or history.newest.samples is None:
            return not_judgeable("policy versions of five steps are not known", self.unit)
        still = 0
        for before, after in reversed(list(itertools.pairwise(versions))):
            if after > before:
                break
            still += 1
        advanced = sum(after > before for before, after in itertools.pairwise(versions))
        if advanced < max(1, (len(versions) - 1 - still) * 0.5):
            return not_judgeable("versions do not advance with the steps in this run", self.unit)
        return compare(
            float(still), self.fire, self.clear, self.unit, words={"version": str(versions[-1])}
        )


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
