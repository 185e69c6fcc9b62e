"""rollout.preemption: samples lose their KV cache and are computed again."""

from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.proof import Proof, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent
from longpole_server.model.diagnosis import NextLook

_LIMIT = "rollout.preemption.work_ratio"


def _judge(view: View) -> Proof | None:
    ratio = view.inside.recomputed_ratio if view.inside is not None else None
    if ratio is None or ratio < view.limits[_LIMIT]:
        return None
    return Proof(
        f"the engines preempt samples for lack of KV room and compute {percent(ratio)} of the "
        "tokens twice",
        (
            inner(
                "rollout/recomputed_ratio",
                ratio,
                "1",
                view.inside_source or "",
                threshold(view, _LIMIT),
            ),
        ),
        inner_agrees=True,
        recoverable_s=view.seconds("gen") * ratio / (1 + ratio),
    )


RULE = Rule(
    code="rollout.preemption",
    family=ROLLOUT,
    title="the rollout computes preempted samples again",
    proof="Preempted or retracted work (rate times recomputed tokens) is 5 % of gen's work or "
    "more, with the KV cache near full.",
    recoverable="gen x recomputed part of all tokens computed",
    reads=("timing_s/agent_loop/num_preempted/mean", "trajectory preemptions"),
    thresholds=(_LIMIT,),
    next=(
        NextLook(
            "Give the KV cache more room.", ("actor_rollout_ref.rollout.gpu_memory_utilization",)
        ),
        NextLook("Run fewer sequences at a time.", ("actor_rollout_ref.rollout.max_num_seqs",)),
        NextLook(
            "Split the model over more GPUs.",
            ("actor_rollout_ref.rollout.tensor_model_parallel_size",),
        ),
        NextLook("Shorten prompts.", ("data.max_prompt_length",)),
    ),
    judge=_judge,
)
