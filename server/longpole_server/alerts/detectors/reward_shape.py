"""Rewards that jump: their mean, or a part of the samples that splits off from the others."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from longpole_server.alerts.detectors.robust_jump import RobustJump
from longpole_server.alerts.detectors.threshold import compare
from longpole_server.alerts.history import History, StepPoint
from longpole_server.alerts.rule import Judgement


@dataclass(frozen=True, slots=True)
class RewardJump:
    """The mean reward against its past; where samples are known, also two peaks where one was.

    Rewards that always were right or wrong have two peaks from the start: only a change counts.

    Attributes:
        mean: Judges the mean.
        split: Part of the rewards' variance between their two best groups that makes two peaks.
        usual_split: The past must lie below this: a bell has 0.64, even rewards 0.75.
        minority: Part of the samples that the smaller group must have.
        recent: Newest steps of which the median counts.
        min_steps: Steps with samples before them.
    """

    mean: RobustJump
    split: float = 0.88
    usual_split: float = 0.78
    minority: float = 0.08
    recent: int = 3
    min_steps: int = 10
    fire: float | None = None
    clear: float | None = None
    unit: str = "1"

    @property
    def reads(self) -> tuple[str, ...]:
        """The mean, and each sample's reward."""
        return (*self.mean.reads, "reward of each sample")

    def judge(self, history: History) -> Judgement:
        """Judge the newest steps."""
        jump = self.mean.judge(history)
        words = {"what": "the mean reward jumped"}
        peaks = None if jump.firing else self._judge_peaks(history)
        if peaks is not None and (peaks.firing or not jump.is_judged):
            return peaks
        if peaks is not None:
            jump = replace(jump, cleared=jump.cleared and peaks.cleared)
        return replace(jump, words={**jump.words, **words})

    def _judge_peaks(self, history: History) -> Judgement | None:
        known = [
            (point.samples.reward_split, point.samples.reward_minority)
            for point in history.steps[-60:]
            if _has_rewards(point) and point.samples is not None
        ]
        newest = history.newest
        if newest is None or not _has_rewards(newest):
            return None
        splits = [split for split, _ in known if split is not None]
        parts = [part for _, part in known if part is not None]
        recent, past = splits[-self.recent :], splits[: -2 * self.recent]
        if len(past) < self.min_steps:
            return None
        usual = statistics.median(past)
        if usual > self.usual_split:
            return None
        value = statistics.median(recent)
        if not self._is_shared(parts):
            value = min(value, usual)
        words = {"what": "the rewards of the samples fell into two groups"}
        return compare(
            value, self.split, (self.split + usual) / 2, "1", baseline=usual, words=words
        )

    def _is_shared(self, parts: Sequence[float]) -> bool:
        return statistics.median(parts[-self.recent :]) >= self.minority


def _has_rewards(point: StepPoint) -> bool:
    return point.samples is not None and point.samples.reward_split is not None
