"""update.imbalance: all ranks wait for the one with the most tokens."""

from longpole_server.diagnosis.families import UPDATE
from longpole_server.diagnosis.proof import Proof, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent
from longpole_server.model.diagnosis import NextLook

_LIMIT = "update.imbalance.ratio"


def read_balance(view: View) -> float | None:
    """Return the largest partition's tokens over the mean partition's."""
    largest = view.scalar("global_seqlen/balanced_max")
    mean = view.scalar("global_seqlen/mean")
    # A partition of less than one token is none.
    return largest / mean if largest is not None and mean is not None and mean >= 1 else None


def _judge(view: View) -> Proof | None:
    ratio = read_balance(view)
    if ratio is None or ratio < view.limits[_LIMIT]:
        return None
    return Proof(
        f"the fullest rank holds {percent(ratio - 1)} more tokens than the mean, and all wait "
        "for it",
        (
            inner(
                "global_seqlen/balanced_max_to_mean", ratio, "1", "scalars", threshold(view, _LIMIT)
            ),
        ),
        inner_agrees=True,
        recoverable_s=view.seconds("update_actor", "update_critic") * (1 - 1 / ratio),
    )


RULE = Rule(
    code="update.imbalance",
    family=UPDATE,
    title="ranks of the update wait for the fullest one",
    proof="Tokens of the fullest partition are 1.15 times the mean or more, or one throttled rank "
    "explains it.",
    recoverable="update x (1 - mean tokens / tokens of the fullest rank)",
    reads=("global_seqlen/balanced_max", "global_seqlen/mean"),
    thresholds=(_LIMIT,),
    next=(
        NextLook("Balance tokens over ranks.", ("trainer.balance_batch",)),
        NextLook("Look for a GPU that is slower than its peers (clock, throttling)."),
    ),
    judge=_judge,
)
