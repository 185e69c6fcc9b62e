"""All verdicts, in the order in which they are tried within their family: the decision table."""

from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.proof import Rule
from longpole_server.diagnosis.rules import (
    async_pools,
    logprob,
    overhead,
    reward,
    rollout_engine,
    rollout_imbalance,
    rollout_long_tail,
    rollout_preemption,
    rollout_reward,
    rollout_tool,
    rollout_truncation,
    rollout_unexplained,
    sync,
    update_critic,
    update_imbalance,
    update_mfu,
)

RULES: tuple[Rule, ...] = (
    async_pools.SERIAL,
    async_pools.TRAINER_STARVED,
    async_pools.ROLLOUT_STARVED,
    rollout_preemption.RULE,
    rollout_tool.RULE,
    rollout_reward.RULE,
    rollout_truncation.RULE,
    rollout_imbalance.RULE,
    rollout_long_tail.RULE,
    rollout_engine.RULE,
    rollout_unexplained.RULE,
    reward.RULE,
    logprob.RULE,
    update_critic.RULE,
    update_imbalance.RULE,
    update_mfu.UNKNOWN,
    update_mfu.INEFFICIENT,
    update_mfu.COMPUTE,
    sync.WEIGHTS,
    sync.SLEEP_WAKE,
    overhead.UNATTRIBUTED,
    overhead.OUTSIDE_RULE,
)

BALANCED = "balanced"
# Verdicts that explain a starved trainer at a second level.
ROLLOUT_RULES: tuple[Rule, ...] = tuple(rule for rule in RULES if rule.family == ROLLOUT)


def rules_of(family: str) -> tuple[Rule, ...]:
    """Return the rules that explain a family's dominance, in the order they are tried."""
    return tuple(rule for rule in RULES if rule.family == family)
