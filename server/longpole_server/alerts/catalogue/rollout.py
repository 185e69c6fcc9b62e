"""Rules about the rollout side: cache, replicas, rewards, weights that must arrive."""

from longpole_server.alerts.detectors.leak import KvLeak
from longpole_server.alerts.detectors.pace import SyncSlow
from longpole_server.alerts.detectors.samples import (
    Preempted,
    ReplicaGone,
    RewardTimeout,
    SyncFailed,
)
from longpole_server.alerts.rule import Rule

ROLLOUT_RULES: tuple[Rule, ...] = (
    Rule(
        "kv.leak",
        "KV cache leak",
        "trend",
        "critical",
        KvLeak(),
        condition=(
            "what an engine holds at rest rises over ten steps or more, by 5 % of the pool, and "
            "goes on rising after the first 20 steps"
        ),
        summary=(
            "{entity} leaks {pool}: at rest it holds {level}, {rise} more over {points} steps "
            "since step {since}, and {left}{support}."
        ),
        cause="Blocks or buffers of finished or aborted requests are not given back.",
        first_look="Aborted requests around weight syncs; a restart of the engine resets the "
        "floor.",
        entity_kind="replica",
        for_steps=2,
        yields_to=("replica.gone",),
        panel="run-engines",
    ),
    Rule(
        "kv.pressure",
        "KV cache too small",
        "trend",
        "warning",
        Preempted(),
        condition="a tenth of the samples is preempted in three steps in a row",
        summary="{value} of the samples were preempted: the cache is too small for the load.",
        cause="More or longer sequences run at once than the cache holds; their work is done "
        "twice.",
        first_look="rollout.gpu_memory_utilization, rollout.max_num_seqs, and the response length.",
        for_steps=3,
        panel="run-engines",
    ),
    Rule(
        "replica.gone",
        "Rollout replica gone",
        "fault",
        "critical",
        ReplicaGone(),
        condition=(
            "a replica that worked in the steps before finished no sample in two steps, or its "
            "engine reports nothing where samples name no replica"
        ),
        summary="Replica {entity} did nothing in {value}; {others} others did.",
        cause="Its process died or no requests are routed to it.",
        first_look="The replica's log and its GPUs: memory still held, or gone with the process.",
        entity_kind="replica",
        panel="run-gpus",
    ),
    Rule(
        "reward.timeout",
        "Rewards missing",
        "fault",
        "warning",
        RewardTimeout(),
        condition="a fifth of a step's samples has no score, or a zero after the longest scoring",
        summary="{value} of the samples came without a real score ({unscored} without any).",
        cause="The reward service times out or fails; zeros that stand for failures teach the "
        "wrong.",
        first_look="Latency and errors of the reward service, and its timeout.",
        for_steps=2,
        panel="run-shares",
    ),
    Rule(
        "sync.slow",
        "Weight sync slow",
        "trend",
        "warning",
        SyncSlow(),
        condition="the weight sync takes twice the time of the first ones, and 5 s more, in three "
        "steps in a row",
        summary="The weight sync took {value}, usual are {baseline}.",
        cause="The link or the store that carries the weights got slower, or a receiver is late.",
        first_look="The phases of the sync in the step's timeline, and the network of the nodes.",
        for_steps=3,
        panel="run-shares",
    ),
    Rule(
        "sync.failed",
        "New weights do not arrive",
        "fault",
        "critical",
        SyncFailed(),
        condition="the policy version of the samples stands still for more than three steps",
        summary="Samples still come from policy version {version}, {value} after it was new.",
        cause="The weight sync fails or is skipped: the rollouts train on an old policy.",
        first_look="The log of the weight sync, and the version that each engine reports.",
        panel="run-shares",
    ),
)
