"""rollout.preemption: samples lose their KV cache and are computed again."""

from longpole.conventions import stages
from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.preemption import KV_LIMIT, WORK_LIMIT
from longpole_server.diagnosis.proof import Advice, Proof, Recoverable, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent


def _judge(view: View) -> Proof | None:
    inside = view.inside
    ratio = inside.recomputed_ratio if inside is not None else None
    if inside is None or ratio is None or ratio < view.limits[WORK_LIMIT]:
        return None
    kv = view.engines.kv_max_ratio if view.engines is not None else None
    if kv is not None and kv < view.limits[KV_LIMIT]:
        return None
    rows = [
        inner(
            "rollout/recomputed_ratio", ratio, "1", view.inner_source, threshold(view, WORK_LIMIT)
        )
    ]
    full = ""
    if kv is not None:
        rows.append(inner("engines/kv_usage_max", kv, "1", "engines", threshold(view, KV_LIMIT)))
        full = f", with the KV cache {percent(kv)} full"
    if view.engines is not None and view.engines.preemptions is not None:
        rows.append(inner("engines/preemptions", view.engines.preemptions, "requests", "engines"))
    gen_s = view.seconds(stages.GEN, stages.TRAINER_WAIT)
    low, high = inside.recomputed_ratio_low, inside.recomputed_ratio_high
    return Proof(
        f"the engines preempt samples for lack of KV room and compute {percent(ratio)} of the "
        f"tokens twice{full}",
        tuple(rows),
        inner_agrees=True,
        # What a preempted sample has behind it is an estimate.
        at_most="high" if low is None or low >= view.limits[WORK_LIMIT] else "medium",
        recoverable=Recoverable.around(
            _lost(gen_s, ratio),
            None if low is None else _lost(gen_s, low),
            None if high is None else _lost(gen_s, high),
        ),
    )


def _lost(gen_s: float, ratio: float) -> float:
    return gen_s * ratio / (1 + ratio)


RULE = Rule(
    code="rollout.preemption",
    family=ROLLOUT,
    title="the rollout computes preempted samples again",
    proof="Preempted or retracted work (rate times recomputed tokens) is 5 % of gen's work or "
    "more, with the KV cache near full (0.90) where that is known. A full cache without preemption "
    "is a well-packed engine.",
    recoverable="gen x recomputed part of all tokens computed, when a preempted sample has half of "
    "its answer behind it; between a quarter and three quarters of it",
    reads=(
        "timing_s/agent_loop/num_preempted/mean",
        "trajectory preemptions",
        "vllm:num_preemptions_total",
        "sglang:num_retracted_requests_total",
        "KV cache usage",
    ),
    thresholds=(WORK_LIMIT, KV_LIMIT),
    sources=("preemptions", "trajectories", "agent_loop", "engines"),
    next=(
        Advice("Give the KV cache more room.", ("engine.memory",)),
        Advice("Run fewer sequences at a time.", ("engine.concurrency",)),
        Advice("Split the model over more GPUs.", ("engine.parallel",)),
        Advice("Shorten prompts.", ("prompt.cap",)),
    ),
    judge=_judge,
)
