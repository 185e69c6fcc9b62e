"""Which family of stages the loop waits for, by share alone: the outer measurement."""

from collections.abc import Mapping
from dataclasses import dataclass

from longpole.conventions import stages
from longpole_server.diagnosis.thresholds import Limits
from longpole_server.diagnosis.view import View

ROLLOUT = "rollout"
REWARD = "reward"
LOGPROB = "logprob"
UPDATE = "update"
SYNC = "sync"
OVERHEAD = "overhead"
OUTSIDE = "outside"
WAIT = "wait"

FAMILY_LABELS: Mapping[str, str] = {
    ROLLOUT: "rollout",
    REWARD: "reward",
    LOGPROB: "log probabilities",
    UPDATE: "update",
    SYNC: "weight sync",
    OVERHEAD: "overhead",
    OUTSIDE: "validation and checkpoints",
    WAIT: "trainer wait",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """Families in order of their shares.

    Attributes:
        shares: Share of the step by family, waits and what is outside left out.
        outside_ratio: Validation and checkpoints, wherever timed, over the step's seconds.
        dominant: The family that dominates, None when none does.
    """

    shares: Mapping[str, float]
    outside_ratio: float
    dominant: str | None

    def ranked(self) -> list[tuple[str, float]]:
        """Return families with their shares, largest first."""
        return sorted(self.shares.items(), key=lambda item: (-item[1], item[0]))


def stages_of(family: str, view: View) -> list[str]:
    """Return the reported stages of a family, largest first."""
    named = [stage for stage in view.window.stage_s if _family_of(stage, view) == family]
    return sorted(named, key=view.seconds, reverse=True)


def rank_families(view: View) -> Standing:
    """Sum shares by family and find the one that dominates."""
    shares: dict[str, float] = {}
    outside_s = sum(view.window.outside_s.values())
    for stage, share in view.window.shares.items():
        family = _family_of(stage, view)
        if family == OUTSIDE:
            outside_s += view.seconds(stage)
        elif family != WAIT:
            shares[family] = shares.get(family, 0.0) + share
    outside_ratio = outside_s / view.step_s if view.step_s else 0.0
    return Standing(shares, outside_ratio, _dominant(shares, outside_ratio, view.limits))


def _dominant(shares: Mapping[str, float], outside_ratio: float, limits: Limits) -> str | None:
    ranked = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    largest, share = ranked[0] if ranked else (None, 0.0)
    if outside_ratio >= limits["outside.ratio"] and outside_ratio >= share:
        return OUTSIDE
    second = ranked[1][1] if len(ranked) > 1 else 0.0
    # Sums of floats: a share of exactly the limit reaches it.
    reaches = share >= limits["dominance.share"] - 1e-9
    leads = share - second >= limits["dominance.margin"] - 1e-9
    return largest if reaches and leads else None


def _family_of(stage: str, view: View) -> str:
    """Return a stage's family; a compound stage goes with its largest part that is known."""
    if stage == stages.UNATTRIBUTED:
        return OVERHEAD
    kind = stages.STAGES[stage]
    if kind.includes:
        known = [part for part in kind.includes if view.seconds(part) > 0]
        if known:
            return stages.STAGES[max(known, key=view.seconds)].family
    if stage == stages.GEN and view.separate_pools:
        # The trainer's gen is its exposed wait there.
        return WAIT
    if kind.family == WAIT and stage == stages.TRAINER_WAIT and not view.separate_pools:
        # On shared GPUs the trainer waits for nothing but the rollout.
        return ROLLOUT
    return kind.family
