"""rollout.long_tail: everybody waits for a few long samples."""

from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.inside_gen import InsideGen
from longpole_server.diagnosis.proof import Proof, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent, times
from longpole_server.model.diagnosis import Evidence, NextLook, Reference


def _judge(view: View) -> Proof | None:
    inside = view.inside
    if inside is None:
        return None
    span, time_ratio, token_ratio = inside.slowest_of_gen, inside.time_ratio, inside.token_ratio
    if span is None or time_ratio is None or token_ratio is None:
        return None
    limits = view.limits
    if span < limits["rollout.long_tail.span_ratio"]:
        return None
    if time_ratio < limits["rollout.long_tail.time_ratio"]:
        return None
    # Decoding speeds up as slots empty, so tokens may well exceed time, but not fall behind it.
    if token_ratio * limits["rollout.long_tail.token_slack"] < time_ratio:
        return None
    return Proof(
        f"the slowest sample runs {times(time_ratio)} as long as the mean, with "
        f"{times(token_ratio)} its tokens, and fills {percent(span)} of gen",
        _evidence(view, inside, span, time_ratio, token_ratio),
        inner_agrees=True,
        recoverable_s=_recoverable(view, inside),
    )


def _evidence(
    view: View, inside: InsideGen, span: float, time_ratio: float, token_ratio: float
) -> tuple[Evidence, ...]:
    source = view.inside_source or ""
    slack = view.limits["rollout.long_tail.token_slack"]
    rows = [
        inner(
            "rollout/slowest_of_gen",
            span,
            "1",
            source,
            threshold(view, "rollout.long_tail.span_ratio"),
        ),
        inner(
            "rollout/slowest_to_mean_time",
            time_ratio,
            "1",
            source,
            threshold(view, "rollout.long_tail.time_ratio"),
        ),
        inner(
            "rollout/slowest_to_mean_tokens",
            token_ratio,
            "1",
            source,
            Reference("threshold", time_ratio / slack),
        ),
    ]
    if inside.idle_ratio is not None:
        rows.append(inner("rollout/idle_ratio", inside.idle_ratio, "1", source))
    return tuple(rows)


def _recoverable(view: View, inside: InsideGen) -> float | None:
    if inside.stop_saving_s is not None:
        return inside.stop_saving_s
    if inside.slowest_s is None or inside.mean_s is None:
        return None
    return max(0.0, inside.slowest_s - view.limits["rollout.long_tail.time_ratio"] * inside.mean_s)


RULE = Rule(
    code="rollout.long_tail",
    family=ROLLOUT,
    title="the rollout waits for a few long samples",
    proof="The slowest sample spans 0.85 or more of gen, takes 1.5 times the mean or more, and "
    "its tokens explain its time (within 1.5 times).",
    recoverable="how much earlier gen would end at 95 % of the samples; from aggregates alone, "
    "what the slowest sample takes beyond 1.5 times the mean",
    reads=("timing_s/agent_loop/slowest/*", "response_length/mean", "trajectories"),
    thresholds=(
        "rollout.long_tail.span_ratio",
        "rollout.long_tail.time_ratio",
        "rollout.long_tail.token_slack",
    ),
    next=(
        NextLook(
            "Train on what has finished and go on with the rest later (partial rollout).",
            ("async_training.partial_rollout",),
        ),
        NextLook("Batch samples of like expected length together."),
        NextLook("Abort hopeless samples early, or lower the cap.", ("data.max_response_length",)),
        NextLook(
            "Let the rollout run ahead of the trainer (asynchronous modes).",
            ("trainer.v1.trainer_mode",),
        ),
    ),
    judge=_judge,
)
