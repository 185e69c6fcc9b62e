"""update.unknown, update.inefficient, update.compute: what the MFU says about a long update."""

from longpole_server.diagnosis.families import UPDATE
from longpole_server.diagnosis.proof import Proof, Rule, inner
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent
from longpole_server.model.diagnosis import Evidence, NextLook, Reference

_BANDS = (
    "update.mfu.healthy_dense",
    "update.mfu.healthy_moe",
    "update.mfu.low_dense",
    "update.mfu.low_moe",
)
_STAGE_OF_INNER = "update.stage_of_inner_ratio"


def limits_of_mfu(view: View) -> tuple[float, float]:
    """Return (low, healthy) for the run's kind of model; dense when nobody said."""
    kind = "moe" if view.is_moe else "dense"
    return view.limits[f"update.mfu.low_{kind}"], view.limits[f"update.mfu.healthy_{kind}"]


def _effective_mfu(view: View) -> float | None:
    """Return the MFU of the whole stage, else the one that the trainer reports."""
    return view.mfu_actor_stage if view.mfu_actor_stage is not None else view.mfu_actor


def _rows(view: View, against: float) -> tuple[Evidence, ...]:
    rows: list[Evidence] = []
    for metric, value, source in (
        ("perf/mfu/actor", view.mfu_actor, "scalars"),
        ("mfu_actor_stage", view.mfu_actor_stage, "computed"),
    ):
        if value is not None:
            rows.append(inner(metric, value, "1", source, Reference("threshold", against)))
    return tuple(rows)


def _judge_unknown(view: View) -> Proof | None:
    if _effective_mfu(view) is not None:
        return None
    impossible = any(
        note.code == "mfu.impossible" for step in view.window.judged for note in step.notes
    )
    why = "the reported MFU is impossible" if impossible else "no MFU is reported"
    return Proof(f"{why}, so that efficient and inefficient cannot be told apart")


def _judge_inefficient(view: View) -> Proof | None:
    mfu = _effective_mfu(view)
    if mfu is None:
        return None
    low, healthy = limits_of_mfu(view)
    recoverable_s = view.seconds("update_actor") * max(0.0, 1 - mfu / healthy)
    stage, reported = view.mfu_actor_stage, view.mfu_actor
    if stage is not None and reported and stage < view.limits[_STAGE_OF_INNER] * reported:
        return Proof(
            f"its training passes reach an MFU of {percent(reported)}, the whole stage only "
            f"{percent(stage)}: offloading or dispatch takes the rest",
            (
                inner("mfu_actor_stage", stage, "1", "computed", Reference("peer", reported)),
                inner("perf/mfu/actor", reported, "1", "scalars"),
            ),
            inner_agrees=True,
            recoverable_s=view.seconds("update_actor") * (1 - stage / reported),
        )
    if mfu >= healthy:
        return None
    if mfu < low:
        # Without the model's configuration this may be a healthy mixture of experts.
        certain = view.is_moe is not None or mfu < view.limits["update.mfu.low_moe"]
        return Proof(
            f"its MFU of {percent(mfu)} is low (healthy: {percent(healthy)})",
            _rows(view, low),
            inner_agrees=True,
            at_most="high" if certain else "medium",
            recoverable_s=recoverable_s,
        )
    return _judge_between(view, mfu, healthy, recoverable_s)


def _judge_between(view: View, mfu: float, healthy: float, recoverable_s: float) -> Proof:
    usual = view.baseline.mfu_actor if view.baseline is not None else None
    fell = (
        usual is not None
        and view.mfu_actor is not None
        and view.mfu_actor * view.limits["finding.change_ratio"] <= usual
    )
    if fell and usual is not None and view.mfu_actor is not None:
        row = inner("perf/mfu/actor", view.mfu_actor, "1", "scalars", Reference("baseline", usual))
        return Proof(
            f"its MFU fell from {percent(usual)} to {percent(view.mfu_actor)}",
            (row,),
            inner_agrees=True,
            at_most="medium",
            recoverable_s=view.seconds("update_actor") * (1 - view.mfu_actor / usual),
        )
    return Proof(
        f"its MFU of {percent(mfu)} is neither low nor healthy (healthy: {percent(healthy)})",
        _rows(view, healthy),
        recoverable_s=recoverable_s,
    )


def _judge_compute(view: View) -> Proof | None:
    mfu = _effective_mfu(view)
    if mfu is None:
        return None
    _, healthy = limits_of_mfu(view)
    return Proof(
        f"its MFU of {percent(mfu)} is healthy: the GPUs compute",
        _rows(view, healthy),
        inner_agrees=True,
        # The reported figure leaves out what lies around the training passes.
        at_most="high" if view.mfu_actor_stage is not None else "medium",
    )


UNKNOWN = Rule(
    code="update.unknown",
    family=UPDATE,
    title="the loop waits for the update, whose efficiency is unknown",
    proof="The MFU is missing or impossible.",
    recoverable="not estimated",
    reads=("perf/mfu/actor",),
    next=(
        NextLook(
            "Send the model's configuration and the GPUs' names: Longpole counts the FLOPs itself."
        ),
        NextLook("Compare the tokens a second with those of a known good run."),
    ),
    judge=_judge_unknown,
)

INEFFICIENT = Rule(
    code="update.inefficient",
    family=UPDATE,
    title="the loop waits for an inefficient update",
    proof="The MFU is low (dense below 0.20, MoE below 0.10), or the stage's MFU is under 0.75 "
    "of the reported one. Between the bands the verdict stays low, or the own baseline decides.",
    recoverable="update_actor x (1 - MFU / healthy MFU)",
    reads=("perf/mfu/actor", "model configuration", "GPU model"),
    thresholds=(*_BANDS, _STAGE_OF_INNER),
    next=(
        NextLook(
            "Fill micro-batches by tokens.",
            (
                "actor_rollout_ref.actor.use_dynamic_bsz",
                "actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
            ),
        ),
        NextLook(
            "Pack sequences, without padding.", ("actor_rollout_ref.model.use_remove_padding",)
        ),
        NextLook(
            "Keep parameters and optimiser on the GPUs.",
            (
                "actor_rollout_ref.actor.fsdp_config.param_offload",
                "actor_rollout_ref.actor.fsdp_config.optimizer_offload",
            ),
        ),
        NextLook(
            "Check parallel sizes and pipeline bubbles.",
            ("actor_rollout_ref.actor.ulysses_sequence_parallel_size",),
        ),
    ),
    judge=_judge_inefficient,
)

COMPUTE = Rule(
    code="update.compute",
    family=UPDATE,
    title="the loop waits for an update that is already efficient",
    proof="The MFU of the whole stage is healthy (dense 0.35, MoE 0.20).",
    recoverable="nothing by tuning",
    reads=("perf/mfu/actor", "model configuration", "GPU model"),
    thresholds=_BANDS,
    next=(
        NextLook(
            "Train on fewer tokens or fewer epochs.",
            ("actor_rollout_ref.actor.ppo_epochs", "data.train_batch_size"),
        ),
        NextLook("Add GPUs.", ("trainer.nnodes", "trainer.n_gpus_per_node")),
        NextLook("Train at a lower precision."),
    ),
    judge=_judge_compute,
)
