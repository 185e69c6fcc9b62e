"""How old the policy is that made the samples: against the bound, and held at it."""

import statistics
from dataclasses import dataclass

from longpole.conventions.stages import TRAINER_WAIT
from longpole_server.alerts.detectors.threshold import compare
from longpole_server.alerts.history import History, RunContext
from longpole_server.alerts.inputs import read_newest, read_opening, read_series
from longpole_server.alerts.rule import Judgement, not_judgeable

# Newest steps that are looked at.
_PAST_STEPS = 60
_VERSIONS = "versions"
_NOT_REPORTED = "staleness is not reported"


def _basis_of(run: RunContext) -> str:
    return run.staleness_basis or _VERSIONS


@dataclass(frozen=True, slots=True)
class BoundExceeded:
    """Samples are older than the configured bound allows, in the bound's own basis."""

    fire: float | None = None
    clear: float | None = None
    unit: str = _VERSIONS
    reads: tuple[str, ...] = ("staleness_max", "staleness bound and basis of the run")

    def judge(self, history: History) -> Judgement:
        """Judge the newest step."""
        value, run = read_newest(history, "staleness_max"), history.run
        if value is None or run is None:
            return not_judgeable(_NOT_REPORTED, self.unit)
        if run.staleness_bound is None:
            return not_judgeable("the run names no staleness bound", self.unit)
        basis = _basis_of(run)
        return compare(
            value, run.staleness_bound, run.staleness_bound, basis, words={"basis": basis}
        )


@dataclass(frozen=True, slots=True)
class StalenessDrift:
    """Lag that is held at a bound of two or more versions, or that drifts up from its own start.

    Attributes:
        held_steps: Steps in a row at the bound that count as held.
        drift_ratio: Median lag of the newest `held_steps` over that of the first steady ones.
        min_steps: Steps needed before drift is judged.
    """

    held_steps: int = 10
    drift_ratio: float = 2.0
    min_steps: int = 30
    fire: float | None = None
    clear: float | None = None
    unit: str = _VERSIONS
    reads: tuple[str, ...] = (
        "staleness_max",
        "staleness_mean",
        "rollout_paused_ratio",
        "staleness bound and basis of the run",
    )

    def judge(self, history: History) -> Judgement:
        """Judge the newest steps."""
        run = history.run
        if run is None or read_newest(history, "staleness_max") is None:
            return not_judgeable(_NOT_REPORTED, self.unit)
        series = read_series(history.steps[-_PAST_STEPS:], "staleness_max").values
        if len(series) < self.held_steps:
            return not_judgeable(f"{len(series)} of {self.held_steps} steps are known", self.unit)
        recent = series[-self.held_steps :]
        words = {"basis": _basis_of(run), "side": _find_side(history)}
        bound = run.staleness_bound
        if bound is not None and bound >= 2 and _basis_of(run) == _VERSIONS:
            lowest = min(recent)
            words["what"] = f"held at the bound of {bound:g} for {self.held_steps} steps"
            # Fires at the bound itself: `compare` asks for more than its limit.
            judgement = compare(lowest, bound - 0.5, bound - 1.0, self.unit, words=words)
            if judgement.firing:
                return judgement
        return self._judge_drift(history, recent, words)

    def _judge_drift(
        self, history: History, recent: tuple[float, ...], words: dict[str, str]
    ) -> Judgement:
        opening = read_opening(history, "staleness_max")
        if len(opening) < self.min_steps:
            return not_judgeable(
                f"{len(opening)} of {self.min_steps} first steps are known for its own baseline",
                self.unit,
            )
        usual = statistics.median(opening[2:12])
        value = statistics.median(recent)
        limit = max(self.drift_ratio * usual, usual + 1.0)
        words["what"] = f"up from {usual:g} at the start"
        return compare(
            value,
            limit,
            (usual + limit) / 2,
            words["basis"],
            baseline=usual,
            words=words,
        )


def _find_side(history: History) -> str:
    """Say which side is the cause, from waits and pauses; never from the lag alone."""
    paused = read_newest(history, "rollout_paused_ratio")
    point = history.newest
    waiting = point.step.stage(TRAINER_WAIT) if point is not None else None
    if paused is not None and paused >= 0.2:
        return f"rollouts are paused {100 * paused:.0f} % of the time: the trainer is too slow"
    if waiting is not None and waiting.share_ratio is not None and waiting.share_ratio >= 0.2:
        return (
            f"the trainer waits {100 * waiting.share_ratio:.0f} % of the step: generation is slow"
        )
    return "which side is slow is not known: neither pauses nor waits are reported"
