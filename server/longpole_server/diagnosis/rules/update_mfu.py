"""update.unknown, update.inefficient, update.compute: what the MFU says about a long update."""

from longpole.conventions import stages
from longpole_server.diagnosis.families import UPDATE
from longpole_server.diagnosis.gpu_activity import measure_activity
from longpole_server.diagnosis.proof import Advice, Proof, Recoverable, Rule, inner
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent
from longpole_server.model.diagnosis import Effect, Evidence, Reference

_BANDS = (
    "update.mfu.healthy_dense",
    "update.mfu.healthy_moe",
    "update.mfu.low_dense",
    "update.mfu.low_moe",
)
_STAGE_OF_INNER = "update.stage_of_inner_ratio"
_TARGET = "update.mfu.target_dense"
_CHANGE = "finding.change_ratio"


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


def _tensor_rows(view: View, against: float, *, low_supports: bool) -> tuple[Evidence, ...]:
    """Tensor cores are busy at least as often as the MFU says: an upper bound measured apart."""
    activity = measure_activity(view.gpu_windows(stages.UPDATE_ACTOR))
    if activity is None or activity.tensor is None:
        return ()
    is_low = activity.tensor < against
    effect: Effect = "supports" if is_low == low_supports else "contradicts"
    reference = Reference("threshold", against)
    return (inner("tensor_active/update", activity.tensor, "1", "gpus", reference, effect),)


def _judge_unknown(view: View) -> Proof | None:
    if _effective_mfu(view) is not None:
        return None
    impossible = any(
        note.code == "mfu.impossible"
        for _, notes in view.window.judged.with_notes
        for note in notes
    )
    why = "the reported MFU is impossible" if impossible else "no MFU is reported"
    _, healthy = limits_of_mfu(view)
    rows = _tensor_rows(view, healthy, low_supports=True)
    seen = f"; tensor cores are {percent(rows[0].value)} active" if rows else ""
    update_s = view.seconds(stages.UPDATE_ACTOR)
    # Tensor activity bounds the MFU from above.
    tensor = rows[0].value if rows else 1.0
    usual_s, high_s = (
        update_s * max(0.0, 1 - tensor / level) for level in (healthy, _target(view))
    )
    return Proof(
        f"{why}, so that efficient and inefficient cannot be told apart{seen}",
        rows,
        recoverable=Recoverable.around(usual_s, 0.0, high_s) if rows else None,
    )


def _judge_inefficient(view: View) -> Proof | None:
    mfu = _effective_mfu(view)
    if mfu is None:
        return None
    low, healthy = limits_of_mfu(view)
    update_s = view.seconds(stages.UPDATE_ACTOR)
    recoverable = _up_to(update_s, mfu, low, healthy, _target(view))
    stage, reported = view.mfu_actor_stage, view.mfu_actor
    if stage is not None and reported and stage < view.limits[_STAGE_OF_INNER] * reported:
        limit = view.limits[_STAGE_OF_INNER] * reported
        return Proof(
            f"its training passes reach an MFU of {percent(reported)}, the whole stage only "
            f"{percent(stage)}: offloading or dispatch takes the rest",
            (
                inner("mfu_actor_stage", stage, "1", "computed", Reference("peer", reported)),
                inner("perf/mfu/actor", reported, "1", "scalars"),
            ),
            inner_agrees=True,
            recoverable=Recoverable.between(
                update_s * (1 - stage / limit), update_s * (1 - stage / reported)
            ),
        )
    if mfu >= healthy:
        return None
    if mfu < low:
        # Without the model's configuration this may be a healthy mixture of experts, and without
        # clocks and the ranks' tokens one of them may hold up the others; that alone does not make
        # a healthy update so inefficient.
        certain = view.is_moe is not None or mfu < view.limits["update.mfu.low_moe"]
        sees_ranks = _sees_clocks(view) and view.rank_balance is not None
        certain = certain and (sees_ranks or mfu < view.limits[_STAGE_OF_INNER] * low)
        return Proof(
            f"its MFU of {percent(mfu)} is low (healthy: {percent(healthy)})",
            (*_rows(view, low), *_tensor_rows(view, healthy, low_supports=True)),
            inner_agrees=True,
            at_most="high" if certain else "medium",
            recoverable=recoverable,
        )
    return _judge_between(view, mfu, healthy, recoverable)


def _sees_clocks(view: View) -> bool:
    return any(gpu.busy_sm_clock_hz for facts in view.gpu_facts for gpu in facts.gpus)


def _target(view: View) -> float:
    """Return what well tuned training reaches: of a mixture of experts, as much above healthy."""
    _, healthy = limits_of_mfu(view)
    return view.limits[_TARGET] * healthy / view.limits["update.mfu.healthy_dense"]


def _up_to(update_s: float, mfu: float, low: float, healthy: float, target: float) -> Recoverable:
    """From the end of the low band, which is the least that tuning reaches, to the target."""
    gains = (update_s * max(0.0, 1 - mfu / level) for level in (healthy, low, target))
    return Recoverable.around(*gains)


def _judge_between(view: View, mfu: float, healthy: float, recoverable: Recoverable) -> Proof:
    usual = view.baseline.mfu_actor if view.baseline is not None else None
    fell = (
        usual is not None
        and view.mfu_actor is not None
        and view.mfu_actor * view.limits[_CHANGE] <= usual
    )
    if fell and usual is not None and view.mfu_actor is not None:
        row = inner("perf/mfu/actor", view.mfu_actor, "1", "scalars", Reference("baseline", usual))
        return Proof(
            f"its MFU fell from {percent(usual)} to {percent(view.mfu_actor)}",
            (row,),
            inner_agrees=True,
            at_most="medium",
            recoverable=_back_to(view, usual, recoverable.high_s),
        )
    return Proof(
        f"its MFU of {percent(mfu)} is neither low nor healthy (healthy: {percent(healthy)})",
        (*_rows(view, healthy), *_tensor_rows(view, healthy, low_supports=True)),
        recoverable=Recoverable.around(recoverable.usual_s, 0.0, recoverable.high_s),
    )


def _back_to(view: View, usual: float, high_s: float) -> Recoverable:
    """Back to the own usual MFU; at least to where ordinary scatter would leave it."""
    update_s, mfu = view.seconds(stages.UPDATE_ACTOR), view.mfu_actor or 0.0
    scattered = usual / view.limits[_CHANGE]
    usual_s, low_s = (update_s * max(0.0, 1 - mfu / level) for level in (usual, scattered))
    return Recoverable.around(usual_s, low_s, high_s)


def _judge_compute(view: View) -> Proof | None:
    mfu = _effective_mfu(view)
    if mfu is None:
        return None
    _, healthy = limits_of_mfu(view)
    tensor = _tensor_rows(view, healthy, low_supports=False)
    agrees = any(row.effect == "supports" for row in tensor)
    # The reported figure leaves out what lies around the training passes.
    return Proof(
        f"its MFU of {percent(mfu)} is healthy: the GPUs compute",
        (*_rows(view, healthy), *tensor),
        inner_agrees=True,
        at_most="high" if view.mfu_actor_stage is not None or agrees else "medium",
        recoverable=Recoverable(0.0, 0.0, 0.0),
    )


UNKNOWN = Rule(
    code="update.unknown",
    family=UPDATE,
    title="the loop waits for the update, whose efficiency is unknown",
    proof="The MFU is missing or impossible.",
    recoverable="update_actor x (1 - tensor activity / healthy MFU); from nothing up to the target "
    "MFU in place of the healthy one; not estimated without GPU activity",
    reads=("perf/mfu/actor", "tensor activity"),
    thresholds=(*_BANDS, _TARGET),
    sources=("mfu", "model", "gpus"),
    next=(
        Advice(
            "Send the model's configuration and the GPUs' names: Longpole counts the FLOPs itself."
        ),
        Advice("Compare the tokens a second with those of a known good run."),
    ),
    judge=_judge_unknown,
)

INEFFICIENT = Rule(
    code="update.inefficient",
    family=UPDATE,
    title="the loop waits for an inefficient update",
    proof="The MFU is low (dense below 0.20, MoE below 0.10), or the stage's MFU is under 0.75 "
    "of the reported one. Between the bands the verdict stays low, or the own baseline decides.",
    recoverable="update_actor x (1 - MFU / healthy MFU); at least up to the end of the low band, "
    "at most up to the target. Where the stage falls short of its passes: at most x (1 - stage / "
    "passes), at least until the stage reaches 0.75 of them, the estimate midway. Against the own "
    "past: back to its MFU, at least to within 1.25 of it",
    reads=("perf/mfu/actor", "model configuration", "GPU model", "tensor activity"),
    thresholds=(*_BANDS, _STAGE_OF_INNER, _TARGET, _CHANGE),
    sources=("mfu", "model", "gpus", "baseline"),
    next=(
        Advice("Fill micro-batches by tokens.", ("update.batch",)),
        Advice("Pack sequences, without padding.", ("update.packing",)),
        Advice("Keep parameters and optimiser on the GPUs.", ("update.offload",)),
        Advice("Check parallel sizes and pipeline bubbles.", ("update.parallel",)),
    ),
    judge=_judge_inefficient,
)

COMPUTE = Rule(
    code="update.compute",
    family=UPDATE,
    title="the loop waits for an update that is already efficient",
    proof="The MFU of the whole stage is healthy (dense 0.35, MoE 0.20).",
    recoverable="nothing by tuning",
    reads=("perf/mfu/actor", "model configuration", "GPU model", "tensor activity"),
    thresholds=_BANDS,
    sources=("mfu", "model", "gpus"),
    next=(
        Advice("Train on fewer tokens or fewer epochs.", ("update.epochs",)),
        Advice("Add GPUs.", ("gpus",)),
        Advice("Train at a lower precision."),
    ),
    judge=_judge_compute,
)
