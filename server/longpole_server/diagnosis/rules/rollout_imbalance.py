"""rollout.imbalance: one replica of the engines is slower or fuller than the others."""

from longpole.conventions import stages
from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.gpu_activity import find_stragglers
from longpole_server.diagnosis.preemption import (
    NOT_REPORTED,
    is_preemption_open,
    is_preemption_unreported,
)
from longpole_server.diagnosis.proof import Advice, Proof, Recoverable, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent, seconds, times
from longpole_server.model.diagnosis import Evidence, Reference

_LIMIT = "rollout.imbalance.ratio"
_QUEUE = "rollout.queue.ratio"
_QUEUES = "rollout.imbalance.queue_factor"
_IDLE = "rollout.imbalance.idle_ratio"
_ROLLOUT_ROLES = frozenset({"rollout", "hybrid"})


def _judge(view: View) -> Proof | None:
    return _judge_pace(view) or _judge_queue(view)


def _judge_pace(view: View) -> Proof | None:
    inside = view.inside
    if inside is None or inside.replica_ratio is None or inside.replica_length_ratio is None:
        return None
    limit = view.limits[_LIMIT]
    if inside.replica_ratio < limit:
        return None
    if not 1 / limit <= inside.replica_length_ratio <= limit:
        return None
    source = view.inner_source
    rows = [
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
    ]
    because = (
        f"replica {inside.slowest_replica} takes {times(inside.replica_ratio)} the seconds a token "
        "of the others, with samples of like length"
    )
    clock = _clock_row(view)
    if clock is not None:
        rows.append(clock)
        because += f"; one of the rollout's GPUs runs at {percent(clock.value)} of the clock"
    at_pace_s = view.seconds(stages.GEN) * (1 - 1 / inside.replica_ratio)
    if inside.replica_saving_s is not None:
        at_pace_s = min(at_pace_s, inside.replica_saving_s)
    # Samples that are preempted there slow a replica down as well, a low clock explains itself.
    is_open = clock is None and is_preemption_open(view)
    if clock is None and is_preemption_unreported(view):
        because += NOT_REPORTED
    return Proof(
        because,
        tuple(rows),
        inner_agrees=True,
        at_most="medium" if is_open else "high",
        recoverable=_spread_over(inside.num_replicas, at_pace_s),
    )


def _spread_over(num_replicas: float | None, excess_s: float) -> Recoverable:
    """Estimate what is given back when one of n replicas keeps all others waiting.

    All of its excess, when it is mended. When its samples are shared out instead, in proportion
    to every replica's pace, gen takes n / (n - 1 + 1/r) of the others' time in place of r: at
    least 1 - 1/n of the excess goes, for every r.
    """
    return Recoverable.between(excess_s * (1 - 1 / max(1.0, num_replicas or 1.0)), excess_s)


def _clock_row(view: View) -> Evidence | None:
    stragglers = find_stragglers(view, _ROLLOUT_ROLES)
    if not stragglers:
        return None
    return inner(
        "gpu/clock_to_peers",
        stragglers[0].ratio,
        "1",
        "gpus",
        threshold(view, "straggler.clock_ratio"),
    )


def _judge_queue(view: View) -> Proof | None:
    """One replica's queue waits while others have nothing to do."""
    return _judge_sample_queue(view) or _judge_engine_queue(view)


def _judge_sample_queue(view: View) -> Proof | None:
    inside = view.inside
    gen_s = view.seconds(stages.GEN, stages.TRAINER_WAIT)
    if inside is None or inside.queue_s is None or inside.other_queue_s is None or gen_s <= 0:
        return None
    queue_s, other_s = inside.queue_s, inside.other_queue_s
    if queue_s < view.limits[_QUEUE] * gen_s or other_s > queue_s / view.limits[_QUEUES]:
        return None
    return Proof(
        f"samples wait {seconds(queue_s)} in the queue of replica {inside.queued_replica}, and "
        f"{seconds(other_s)} in the others'",
        (
            inner(
                "rollout/replica_queue_s",
                queue_s,
                "s",
                view.inner_source,
                Reference("peer", other_s),
            ),
        ),
        inner_agrees=True,
        recoverable=_spread_over(inside.num_replicas, queue_s - other_s),
    )


def _judge_engine_queue(view: View) -> Proof | None:
    engines = view.engines
    if engines is None or engines.queue_beside_idle_s is None or engines.seconds <= 0:
        return None
    beside_s = engines.queue_beside_idle_s
    if beside_s < view.limits[_IDLE] * engines.seconds:
        return None
    return Proof(
        f"requests wait in the queue of replica {engines.longest_queue}, while another replica has "
        f"nothing to do for {seconds(beside_s)} or more",
        (
            inner(
                "rollout/queue_beside_idle_ratio",
                beside_s / engines.seconds,
                "1",
                "engines",
                threshold(view, _IDLE),
            ),
        ),
        inner_agrees=True,
        recoverable=Recoverable.around(beside_s / 2, 0.0, beside_s),
    )


RULE = Rule(
    code="rollout.imbalance",
    family=ROLLOUT,
    title="the rollout waits for one replica",
    proof="One replica's seconds a token are 1.3 times the others' median or more, with samples of "
    "like length; or its queue waits while others idle. No more than medium where nobody reports "
    "preemptions, no engine shows room in its KV cache, and no low clock explains it.",
    recoverable="at most what gen would end earlier by with the slow replica at the others' pace, "
    "or without its longer queue; at least 1 - 1/replicas of that, which sharing its samples out "
    "by pace gives; the estimate lies midway",
    reads=(
        "trajectories by replica",
        "trajectory queue_s",
        "engine running and waiting requests by replica",
        "SM clock by GPU",
    ),
    thresholds=(_LIMIT, _QUEUE, _QUEUES, _IDLE, "straggler.clock_ratio"),
    sources=("trajectories", "engines", "preemptions", "gpus"),
    next=(
        Advice("Look at the GPUs of that replica: clock, throttling, neighbours."),
        Advice("Look at how samples are routed to replicas."),
        Advice("Cap the sequences decoded together on a replica.", ("engine.concurrency",)),
        Advice("Change the number of replicas.", ("engine.replicas",)),
    ),
    judge=_judge,
)
