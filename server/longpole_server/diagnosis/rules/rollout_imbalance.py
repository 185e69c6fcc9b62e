"""rollout.imbalance: one replica of the engines is slower than the others."""

from longpole.conventions import stages
from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.proof import Proof, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import times
from longpole_server.model.diagnosis import NextLook, Reference

_LIMIT = "rollout.imbalance.ratio"


def _judge(view: View) -> Proof | None:
    inside = view.inside
    if inside is None or inside.replica_ratio is None or inside.replica_length_ratio is None:
        return None
    limit = view.limits[_LIMIT]
    if inside.replica_ratio < limit:
        return None
    if not 1 / limit <= inside.replica_length_ratio <= limit:
        return None
    source = view.inside_source or ""
    return Proof(
        f"replica {inside.slowest_replica} takes {times(inside.replica_ratio)} the seconds a token "
        "of the others, with samples of like length",
        (
            inner(
                "rollout/replica_seconds_per_token",
                inside.replica_ratio,
                "1",
                source,
                threshold(view, _LIMIT),
            ),
            inner(
                "rollout/replica_tokens_to_mean",
                inside.replica_length_ratio,
                "1",
                source,
                Reference("peer", 1.0),
            ),
        ),
        inner_agrees=True,
        recoverable_s=view.seconds(stages.GEN) * (1 - 1 / inside.replica_ratio),
    )


RULE = Rule(
    code="rollout.imbalance",
    family=ROLLOUT,
    title="the rollout waits for one slow replica",
    proof="One replica's seconds a token are 1.3 times the others' median or more, with samples of "
    "like length.",
    recoverable="gen x (1 - pace of the others / pace of the slow replica)",
    reads=("trajectories by replica",),
    thresholds=(_LIMIT,),
    next=(
        NextLook("Look at the GPUs of that replica: clock, throttling, neighbours."),
        NextLook("Look at how samples are routed to replicas."),
        NextLook(
            "Cap the sequences decoded together on a replica.",
            ("actor_rollout_ref.rollout.max_num_seqs",),
        ),
    ),
    judge=_judge,
)
