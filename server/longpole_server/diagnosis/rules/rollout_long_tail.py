"""rollout.long_tail: everybody waits for a few long samples."""

from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.inside_gen import InsideGen
from longpole_server.diagnosis.preemption import (
    KV_LIMIT,
    NOT_REPORTED,
    WORK_LIMIT,
    is_preemption_open,
    is_preemption_unreported,
)
from longpole_server.diagnosis.proof import Advice, Proof, Recoverable, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent, times
from longpole_server.model.diagnosis import Evidence, Reference

_SPAN = "rollout.long_tail.span_ratio"
_TIME = "rollout.long_tail.time_ratio"
_SLACK = "rollout.long_tail.token_slack"
_EXPOSED = "rollout.long_tail.exposed_ratio"
# What is clearly beyond the line, by means alone.
_CLEAR = 1.1
_STREAMING = frozenset({"fully_async", "separate_async"})


def _judge(view: View) -> Proof | None:
    inside = view.inside
    if inside is None:
        return None
    span, time_ratio, token_ratio = inside.slowest_of_gen, inside.time_ratio, inside.token_ratio
    if span is None or time_ratio is None or token_ratio is None:
        return None
    limits = view.limits
    if time_ratio < limits[_TIME]:
        return None
    # Samples that stream through a buffer have no common end that one of them could fill gen up to.
    is_streaming = view.mode in _STREAMING and view.inside_source == "trajectories"
    if not (_is_exposed(view, inside) if is_streaming else span >= limits[_SPAN]):
        return None
    # Decoding speeds up as slots empty, so tokens may well exceed time, but not fall behind it.
    if token_ratio * limits[_SLACK] < time_ratio:
        return None
    # Slots that empty are no proof that the last samples are the longest. Without replicas a slow
    # one looks like a long sample whose tokens fall short of its time, and a mean time may hold as
    # much waiting for a slot as lifts it over the line. Preemption would have been the first to
    # ask: where nobody reports it, it is not ruled out.
    is_weak = (
        view.inside_source == "engines"
        or (
            view.inside_source == "agent_loop"
            and (token_ratio < time_ratio or time_ratio < limits[_TIME] * _CLEAR)
        )
        or is_preemption_open(view)
    )
    unreported = NOT_REPORTED if is_preemption_unreported(view) else ""
    return Proof(
        f"the slowest sample runs {times(time_ratio)} as long as the mean, with "
        f"{times(token_ratio)} its tokens, and fills {percent(span)} of gen{unreported}",
        _evidence(view, inside, span, time_ratio, token_ratio),
        inner_agrees=True,
        at_most="medium" if is_weak else "high",
        recoverable=_recoverable(view, inside),
    )


def _is_exposed(view: View, inside: InsideGen) -> bool:
    """Tell whether the trainer's wait is about the last samples, though a buffer lies between."""
    wait_s = view.wait_s
    if inside.stop_saving_s is None or wait_s <= 0:
        return False
    return inside.stop_saving_s >= view.limits[_EXPOSED] * wait_s


def _evidence(
    view: View, inside: InsideGen, span: float, time_ratio: float, token_ratio: float
) -> tuple[Evidence, ...]:
    source = view.inner_source
    tokens = Reference("threshold", time_ratio / view.limits[_SLACK])
    rows = [
        inner("rollout/slowest_of_gen", span, "1", source, threshold(view, _SPAN)),
        inner("rollout/slowest_to_mean_time", time_ratio, "1", source, threshold(view, _TIME)),
        inner("rollout/slowest_to_mean_tokens", token_ratio, "1", source, tokens),
    ]
    if inside.idle_ratio is not None:
        rows.append(inner("rollout/idle_ratio", inside.idle_ratio, "1", source))
    engines = view.engines
    if engines is not None and engines.fill_ratio is not None and source != "engines":
        rows.append(inner("rollout/engine_idle_slots", 1 - engines.fill_ratio, "1", "engines"))
    return tuple(rows)


def _recoverable(view: View, inside: InsideGen) -> Recoverable | None:
    if inside.stop_saving_s is not None:
        return Recoverable.around(
            inside.stop_saving_s, inside.stop_saving_low_s, inside.stop_saving_high_s
        )
    if inside.slowest_s is None or inside.mean_s is None:
        return None
    usual_s = inside.slowest_s - view.limits[_TIME] * inside.mean_s
    return Recoverable.around(usual_s, 0.0, inside.slowest_s - inside.mean_s)


RULE = Rule(
    code="rollout.long_tail",
    family=ROLLOUT,
    title="the rollout waits for a few long samples",
    proof="The slowest sample spans 0.85 or more of gen, takes 1.5 times the mean or more, and "
    "its tokens explain its time (within 1.5 times). Where samples stream through a buffer, the "
    "trainer's wait must be about the last ones. No more than medium where nobody reports "
    "preemptions and no engine shows room in its KV cache.",
    recoverable="how much earlier gen would end at 95 % of the samples (of fewer than 20, without "
    "the last one), between 98 % and 80 %; "
    "from aggregates alone, what the slowest sample takes beyond 1.5 times the mean, up to all "
    "beyond the mean",
    reads=(
        "timing_s/agent_loop/slowest/*",
        "response_length/mean",
        "trajectories",
        "engine running requests over gen",
        "preemptions",
    ),
    thresholds=(_SPAN, _TIME, _SLACK, _EXPOSED, WORK_LIMIT, KV_LIMIT),
    sources=("trajectories", "agent_loop", "engines", "preemptions"),
    next=(
        Advice(
            "Train on what has finished and go on with the rest later (partial rollout).",
            ("partial_rollout",),
        ),
        Advice("Batch samples of like expected length together."),
        Advice("Abort hopeless samples early, or lower the cap.", ("response.cap",)),
        Advice(
            "Let the rollout run ahead of the trainer (asynchronous modes).",
            ("async.mode",),
            pools="shared",
        ),
    ),
    judge=_judge,
)
