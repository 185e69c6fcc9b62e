"""imbalance.*: ranks and replicas that others wait for."""

from longpole_server.diagnosis.finding_kind import FindingKind, make_finding
from longpole_server.diagnosis.proof import inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent, times
from longpole_server.model.diagnosis import Entity, Finding

_DP = "update.imbalance.ratio"
_REPLICA = "rollout.imbalance.ratio"


def _find_dp(view: View) -> list[Finding]:
    balance = view.rank_balance
    if balance is None or balance.ratio < view.limits[_DP]:
        return []
    ratio = balance.ratio
    row = inner("global_seqlen/balanced_max_to_mean", ratio, "1", "scalars", threshold(view, _DP))
    summary = (
        f"The fullest data-parallel rank holds {percent(ratio - 1)} more tokens than the mean."
    )
    return [make_finding(view, "imbalance.dp", "warning", summary, (row,))]


def _find_replica(view: View) -> list[Finding]:
    inside = view.inside
    if inside is None or inside.replica_ratio is None:
        return []
    if inside.replica_ratio < view.limits[_REPLICA]:
        return []
    row = inner(
        "rollout/replica_seconds_per_token",
        inside.replica_ratio,
        "1",
        view.inner_source,
        threshold(view, _REPLICA),
    )
    entity = Entity("replica", inside.slowest_replica or "")
    summary = (
        f"Replica {inside.slowest_replica} takes {times(inside.replica_ratio)} the seconds a token "
        "of the others."
    )
    return [make_finding(view, "imbalance.replica", "warning", summary, (row,), entity)]


DATA_PARALLEL = FindingKind(
    "imbalance.dp",
    "data-parallel ranks hold unlike numbers of tokens",
    "The fullest partition holds 1.15 times the mean or more after balancing.",
    ("global_seqlen/balanced_max", "global_seqlen/mean"),
    _find_dp,
    (_DP,),
)
REPLICA = FindingKind(
    "imbalance.replica",
    "a rollout replica is slower than the others",
    "Its seconds a token are 1.3 times the others' median or more.",
    ("trajectories by replica",),
    _find_replica,
    (_REPLICA,),
)
