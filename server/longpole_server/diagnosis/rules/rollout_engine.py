"""rollout.engine: all samples decode equally slowly."""

from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.inside_gen import InsideGen
from longpole_server.diagnosis.proof import Proof, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import times
from longpole_server.model.diagnosis import Evidence, NextLook

_UNIFORM = "rollout.engine.uniform_ratio"
_SLOW = "rollout.engine.slow_tokens_per_s"


def _judge(view: View) -> Proof | None:
    inside = view.inside
    if inside is None or inside.time_ratio is None or inside.slowest_of_gen is None:
        return None
    if inside.time_ratio >= view.limits[_UNIFORM]:
        return None
    if inside.slowest_of_gen < view.limits["rollout.long_tail.span_ratio"]:
        return None
    rate = inside.tokens_per_s
    is_slow = rate is not None and rate < view.limits[_SLOW]
    decoding = "" if rate is None else f", at {rate:.0f} tokens/s each"
    return Proof(
        f"all samples take about equally long (the slowest {times(inside.time_ratio)} the mean)"
        + decoding,
        _evidence(view, inside, is_slow=is_slow),
        inner_agrees=is_slow,
    )


def _evidence(view: View, inside: InsideGen, *, is_slow: bool) -> tuple[Evidence, ...]:
    source = view.inside_source or ""
    rows = [
        inner(
            "rollout/slowest_to_mean_time",
            inside.time_ratio or 0.0,
            "1",
            source,
            threshold(view, _UNIFORM),
        )
    ]
    if inside.tokens_per_s is not None:
        rows.append(
            inner(
                "rollout/tokens_per_s_per_sample",
                inside.tokens_per_s,
                "tokens/s",
                source,
                threshold(view, _SLOW),
                "supports" if is_slow else "contradicts",
            )
        )
    return tuple(rows)


RULE = Rule(
    code="rollout.engine",
    family=ROLLOUT,
    title="the rollout engines decode slowly",
    proof="Decoding is uniformly slow: slowest to mean time under 1.3 over all of gen, with few "
    "tokens/s a sample. With an ordinary rate the verdict stays low.",
    recoverable="not estimated: what an engine could do is not known from here",
    reads=("timing_s/agent_loop/generate_sequences/*", "response_length/mean", "trajectories"),
    thresholds=(_UNIFORM, _SLOW, "rollout.long_tail.span_ratio"),
    next=(
        NextLook(
            "Raise the number of sequences decoded together.",
            ("actor_rollout_ref.rollout.max_num_seqs",),
        ),
        NextLook("Turn eager mode off.", ("actor_rollout_ref.rollout.enforce_eager",)),
        NextLook("Use quantised weights for the rollout."),
        NextLook(
            "Separate prefill from decode, and check tensor parallel size and topology.",
            ("actor_rollout_ref.rollout.tensor_model_parallel_size",),
        ),
        NextLook(
            "Share prefixes of a group.", ("actor_rollout_ref.rollout.enable_prefix_caching",)
        ),
    ),
    judge=_judge,
)
