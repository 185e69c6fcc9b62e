"""update.critic: the critic's update takes longer than the actor's."""

from longpole.conventions import stages
from longpole_server.diagnosis.families import UPDATE
from longpole_server.diagnosis.proof import Advice, Proof, Recoverable, Rule, inner
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import seconds
from longpole_server.model.diagnosis import Reference


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
        recoverable=Recoverable(0.0, critic_s - actor_s, critic_s),
    )


RULE = Rule(
    code="update.critic",
    family=UPDATE,
    title="the loop waits for the critic's update",
    proof="The update dominates and the critic takes longer than the actor.",
    recoverable="what the critic takes beyond the actor; all of it without a critic",
    reads=("timing_s/update_critic", "timing_s/update_actor"),
    sources=("spans",),
    next=(
        Advice("Use larger or token-based micro-batches for the critic.", ("critic.batch",)),
        Advice("Use an algorithm without a critic.", ("estimator",)),
    ),
    judge=_judge,
)
