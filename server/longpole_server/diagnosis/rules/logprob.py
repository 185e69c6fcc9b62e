"""logprob: log probabilities and values are computed again over all samples."""

from longpole.conventions import stages
from longpole_server.diagnosis.families import LOGPROB, stages_of
from longpole_server.diagnosis.proof import Proof, Rule, inner
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import label, percent, seconds
from longpole_server.model.diagnosis import NextLook, Reference


def _judge(view: View) -> Proof:
    names = stages_of(LOGPROB, view)
    parts = ", ".join(f"{label(name)} {seconds(view.seconds(name))}" for name in names)
    because = f"samples are read again ({parts})"
    mfu = view.mfu_infer
    if mfu is None:
        return Proof(because)
    healthy = view.limits["update.mfu.healthy_moe" if view.is_moe else "update.mfu.healthy_dense"]
    is_low = mfu < healthy
    return Proof(
        f"{because}, at an MFU of {percent(mfu)}",
        (
            inner(
                "perf/mfu/actor_infer",
                mfu,
                "1",
                "scalars",
                Reference("threshold", healthy),
                "supports" if is_low else "contradicts",
            ),
        ),
        inner_agrees=is_low,
        recoverable_s=view.seconds(stages.OLD_LOG_PROB, stages.REF) * (1 - mfu / healthy)
        if is_low
        else None,
    )


RULE = Rule(
    code="logprob",
    family=LOGPROB,
    title="the loop computes log probabilities",
    proof="`mfu_infer` or time a token where known.",
    recoverable="old_log_prob and ref x (1 - mfu_infer / healthy MFU)",
    reads=("perf/mfu/actor_infer",),
    thresholds=("update.mfu.healthy_dense", "update.mfu.healthy_moe"),
    next=(
        NextLook(
            "Use larger or token-based micro-batches.",
            (
                "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu",
                "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
                "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz",
            ),
        ),
        NextLook(
            "Keep the reference policy on the GPUs.",
            ("actor_rollout_ref.ref.fsdp_config.param_offload",),
        ),
        NextLook(
            "Train on the engines' log probabilities in place of computing them again.",
            ("actor_rollout_ref.rollout.calculate_log_probs", "algorithm.rollout_correction"),
        ),
    ),
    judge=_judge,
)
