"""update.imbalance: all ranks wait for the one with the most tokens, or with the lowest clock."""

from longpole_server.diagnosis.families import UPDATE
from longpole_server.diagnosis.gpu_activity import TRAINER_ROLES, find_stragglers
from longpole_server.diagnosis.proof import Advice, Proof, Recoverable, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent

_LIMIT = "update.imbalance.ratio"
_CLOCK = "straggler.clock_ratio"


def _judge(view: View) -> Proof | None:
    return _judge_tokens(view) or _judge_clock(view)


def _judge_tokens(view: View) -> Proof | None:
    balance = view.rank_balance
    if balance is None or balance.ratio < view.limits[_LIMIT]:
        return None
    ratio = balance.ratio
    update_s = view.seconds("update_actor", "update_critic")
    return Proof(
        f"the fullest rank holds {percent(ratio - 1)} more tokens than the mean, and all wait "
        "for it",
        (
            inner(
                "global_seqlen/balanced_max_to_mean", ratio, "1", "scalars", threshold(view, _LIMIT)
            ),
        ),
        inner_agrees=True,
        recoverable=Recoverable.between(
            update_s * (1 - view.limits[_LIMIT] / ratio), update_s * balance.waiting_ratio
        ),
    )


def _judge_clock(view: View) -> Proof | None:
    stragglers = find_stragglers(view, TRAINER_ROLES)
    if not stragglers:
        return None
    worst = stragglers[0]
    reasons = f" ({', '.join(worst.reasons)})" if worst.reasons else ""
    update_s = view.seconds("update_actor", "update_critic")
    return Proof(
        f"GPU {worst.gpu.gpu_index} of {worst.gpu.host} works at {percent(worst.ratio)} of its "
        f"peers' clock{reasons}, and all ranks wait for it",
        (inner("gpu/clock_to_peers", worst.ratio, "1", "gpus", threshold(view, _CLOCK)),),
        inner_agrees=True,
        recoverable=Recoverable.between(
            update_s * (1 - worst.ratio / view.limits[_CLOCK]), update_s * (1 - worst.ratio)
        ),
    )


RULE = Rule(
    code="update.imbalance",
    family=UPDATE,
    title="ranks of the update wait for one of them",
    proof="Tokens of the fullest partition are 1.15 times the mean or more, or one throttled rank "
    "explains it: its clock at work is below 0.85 of its peers'.",
    recoverable="at most update x (1 - mean tokens / tokens of the fullest rank), or x (1 - clock "
    "/ peers' clock), when all are equal; at least as much as coming within the limits (1.15 times "
    "the mean, 0.85 of the clock) gives; the estimate lies midway",
    reads=("global_seqlen/balanced_max", "global_seqlen/mean", "SM clock by GPU"),
    thresholds=(_LIMIT, _CLOCK),
    sources=("rank_tokens", "gpus"),
    next=(
        Advice("Balance tokens over ranks.", ("update.balance",)),
        Advice("Look for a GPU that is slower than its peers (clock, throttling)."),
    ),
    judge=_judge,
)
