"""logprob: log probabilities and values are computed again over all samples."""

from longpole.conventions import stages
from longpole_server.diagnosis.families import LOGPROB, stages_of
from longpole_server.diagnosis.gpu_activity import measure_activity
from longpole_server.diagnosis.proof import Advice, Proof, Recoverable, Rule, inner
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import label, percent, seconds
from longpole_server.model.diagnosis import Evidence, Reference


def _judge(view: View) -> Proof:
    names = stages_of(LOGPROB, view)
    parts = ", ".join(f"{label(name)} {seconds(view.seconds(name))}" for name in names)
    because = f"samples are read again ({parts})"
    healthy = view.limits["update.mfu.healthy_moe" if view.is_moe else "update.mfu.healthy_dense"]
    mfu = view.mfu_infer
    if mfu is not None:
        is_low = mfu < healthy
        row = inner(
            "perf/mfu/actor_infer",
            mfu,
            "1",
            "scalars",
            Reference("threshold", healthy),
            "supports" if is_low else "contradicts",
        )
        return Proof(
            f"{because}, at an MFU of {percent(mfu)}",
            (row,),
            inner_agrees=is_low,
            recoverable=_recoverable(view, mfu / healthy),
        )
    row = _tensor_row(view, names, healthy)
    if row is None:
        return Proof(because, recoverable=_recoverable(view, None))
    is_low = row.effect == "supports"
    return Proof(
        f"{because}, with tensor cores {percent(row.value)} active",
        (row,),
        inner_agrees=is_low,
        at_most="medium",
        recoverable=_recoverable(view, row.value / healthy),
    )


def _tensor_row(view: View, names: list[str], healthy: float) -> Evidence | None:
    activity = measure_activity(view.gpu_windows(*names))
    if activity is None or activity.tensor is None:
        return None
    effect = "supports" if activity.tensor < healthy else "contradicts"
    return inner(
        "tensor_active/logprob",
        activity.tensor,
        "1",
        "gpus",
        Reference("threshold", healthy),
        effect,
    )


def _recoverable(view: View, of_healthy: float | None) -> Recoverable | None:
    """Efficient passes at least; at most the passes that the engines' own figures replace."""
    passes_s = view.seconds(stages.OLD_LOG_PROB, stages.REF)
    if of_healthy is None:
        replaced_s = view.seconds(stages.OLD_LOG_PROB)
        return Recoverable(0.0, replaced_s / 2, replaced_s) if replaced_s > 0 else None
    usual_s = passes_s * max(0.0, 1 - of_healthy)
    return Recoverable.around(usual_s, 0.0, max(usual_s, view.seconds(stages.OLD_LOG_PROB)))


RULE = Rule(
    code="logprob",
    family=LOGPROB,
    title="the loop computes log probabilities",
    proof="`mfu_infer`, tensor activity or time a token where known.",
    recoverable="old_log_prob and ref x (1 - mfu_infer / healthy MFU), half of old_log_prob "
    "without an MFU; from nothing up to the whole old_log_prob, which the engines' log "
    "probabilities replace",
    reads=("perf/mfu/actor_infer", "tensor activity"),
    thresholds=("update.mfu.healthy_dense", "update.mfu.healthy_moe"),
    sources=("mfu_infer", "gpus"),
    next=(
        Advice("Use larger or token-based micro-batches.", ("logprob.batch",)),
        Advice("Keep the reference policy on the GPUs.", ("ref.offload",)),
        Advice(
            "Train on the engines' log probabilities in place of computing them again.",
            ("logprob.engine",),
        ),
    ),
    judge=_judge,
)
