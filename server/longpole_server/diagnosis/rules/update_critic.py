"""update.critic: the critic's update takes longer than the actor's."""

from longpole.conventions import stages
from longpole_server.diagnosis.families import UPDATE
from longpole_server.diagnosis.proof import Proof, Rule, inner
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import seconds
from longpole_server.model.diagnosis import NextLook, Reference


def _judge(view: View) -> Proof | None:
    critic_s, actor_s = view.seconds(stages.UPDATE_CRITIC), view.seconds(stages.UPDATE_ACTOR)
    if critic_s <= actor_s:
        return None
    return Proof(
        f"the critic takes {seconds(critic_s)} of it, the actor {seconds(actor_s)}",
        (
            inner(
                "stage_s/update_critic",
                critic_s,
                "s",
                view.ledger_source,
                Reference("peer", actor_s),
            ),
        ),
        inner_agrees=True,
        recoverable_s=critic_s - actor_s,
    )


RULE = Rule(
    code="update.critic",
    family=UPDATE,
    title="the loop waits for the critic's update",
    proof="The update dominates and the critic takes longer than the actor.",
    recoverable="what the critic takes beyond the actor",
    reads=("timing_s/update_critic", "timing_s/update_actor"),
    next=(
        NextLook(
            "Use larger or token-based micro-batches for the critic.",
            (
                "critic.ppo_micro_batch_size_per_gpu",
                "critic.ppo_max_token_len_per_gpu",
                "critic.use_dynamic_bsz",
            ),
        ),
        NextLook("Use an algorithm without a critic.", ("algorithm.adv_estimator",)),
    ),
    judge=_judge,
)
