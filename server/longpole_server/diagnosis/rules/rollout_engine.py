"""rollout.engine: all samples decode equally slowly."""

from longpole.conventions import stages
from longpole_server.analysis.decode_bandwidth import measure_decode_bandwidth
from longpole_server.analysis.longtail_report import find_gen
from longpole_server.analysis.longtail_waste import count_rollout_gpus
from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.gen_pace import mean_response_tokens, measure_gen_pace
from longpole_server.diagnosis.gpu_activity import measure_activity
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

_UNIFORM = "rollout.engine.uniform_ratio"
_SLOW = "rollout.engine.slow_tokens_per_s"
_DRAM = "rollout.engine.dram_active"
_BANDWIDTH = "rollout.engine.bandwidth_ratio"
_CHANGE = "finding.change_ratio"
_FAST = "rollout.engine.fast_tokens_per_s"
_USUAL_BANDWIDTH = "rollout.engine.usual_bandwidth_ratio"
_RATE = "rollout/tokens_per_s_per_sample"
_BANDWIDTH_METRIC = "rollout/decode_bandwidth_ratio"
_OF_MEMORY = frozenset({"dram_active/gen", _BANDWIDTH_METRIC})


def _judge(view: View) -> Proof | None:
    inside = view.inside
    if inside is None or inside.time_ratio is None or inside.slowest_of_gen is None:
        return None
    if inside.time_ratio >= view.limits[_UNIFORM]:
        return None
    if inside.slowest_of_gen < view.limits["rollout.long_tail.span_ratio"]:
        return None
    rows = [_uniform_row(view, inside.time_ratio), *_speed_rows(view, inside)]
    if len(rows) == 1:
        # Equally long samples take equally long: nothing says how fast they are decoded.
        return None
    slow = [row for row in rows[1:] if row.effect == "supports"]
    # Memory that is hardly read says that something is slow, not that it is the decoding.
    # Samples that are computed again are slow too.
    weak = is_preemption_open(view) or all(row.metric in _OF_MEMORY for row in slow)
    return Proof(
        _describe(view, inside, slow),
        tuple(rows),
        inner_agrees=bool(slow),
        at_most="medium" if weak else "high",
        recoverable=_recoverable(view, slow),
    )


def _describe(view: View, inside: InsideGen, slow: list[Evidence]) -> str:
    because = (
        "all samples take about equally long (the slowest "
        f"{times(inside.time_ratio or 1.0)} the mean)"
    )
    if inside.tokens_per_s is not None:
        because += f", at {inside.tokens_per_s:.0f} tokens/s each"
    for row in slow:
        if row.metric == "gen_s_per_token":
            because += f", {percent(row.value / _reference(row) - 1)} slower a token than usual"
        elif row.metric == "dram_active/gen":
            because += f", with GPU memory read {percent(row.value)} of the time"
        elif row.metric == _BANDWIDTH_METRIC:
            because += f", with {percent(row.value)} of the GPUs' memory bandwidth"
    return because + (NOT_REPORTED if is_preemption_unreported(view) else "")


def _uniform_row(view: View, ratio: float) -> Evidence:
    return inner(
        "rollout/slowest_to_mean_time", ratio, "1", view.inner_source, threshold(view, _UNIFORM)
    )


def _speed_rows(view: View, inside: InsideGen) -> list[Evidence]:
    """What tells slow engines from long samples: decode rate, the own past, memory traffic."""
    rows: list[Evidence] = []
    if inside.tokens_per_s is not None:
        rows.append(
            inner(
                _RATE,
                inside.tokens_per_s,
                "tokens/s",
                view.inner_source,
                threshold(view, _SLOW),
                "supports" if inside.tokens_per_s < view.limits[_SLOW] else "contradicts",
            )
        )
    slower = _against_baseline(view)
    if slower is not None:
        rows.append(slower)
    activity = measure_activity(view.gpu_windows(stages.GEN))
    if activity is not None and activity.dram is not None:
        rows.append(
            inner(
                "dram_active/gen",
                activity.dram,
                "1",
                "gpus",
                threshold(view, _DRAM),
                "supports" if activity.dram < view.limits[_DRAM] else "contradicts",
            )
        )
    bandwidth = _bandwidth_row(view)
    return rows if bandwidth is None else [*rows, bandwidth]


def _bandwidth_row(view: View) -> Evidence | None:
    """What decoding reads a second against the memory's peak, in the newest step with samples."""
    for look in reversed(view.sampled):
        samples = look.facts.trajectories
        if samples is None:
            continue
        gpus = count_rollout_gpus(view.run, look.facts, view.mode)
        gen = find_gen(look.facts.step, view.mode)
        found = measure_decode_bandwidth(view.run, samples, gpus.count, gen)
        if found.ratio is None:
            return None
        effect = "supports" if found.ratio < view.limits[_BANDWIDTH] else "contradicts"
        return inner(
            _BANDWIDTH_METRIC,
            found.ratio,
            "1",
            "trajectories",
            threshold(view, _BANDWIDTH),
            effect,
        )
    return None


def _against_baseline(view: View) -> Evidence | None:
    """Seconds of gen a token against what is usual: a response token where these are known."""
    baseline = view.baseline
    if baseline is None:
        return None
    judged = view.window.judged
    gen_s = view.seconds(stages.GEN)
    pace = measure_gen_pace(baseline.steps, judged)
    responses = mean_response_tokens(judged)
    if pace is not None and responses and pace.growth > 0:
        now_s = gen_s / responses
        sure = pace.growth >= 1 + view.limits["finding.scatter"] * pace.scatter
        return _pace_row(view, now_s, now_s / pace.growth, is_beyond_scatter=sure)
    tokens = [tokens for tokens in judged.known("tokens_total") if tokens]
    usual_s = baseline.stage_s.get(stages.GEN, 0.0) / baseline.tokens if baseline.tokens else 0.0
    if not tokens or usual_s <= 0:
        return None
    now_s = gen_s / (sum(tokens) / len(tokens))
    return _pace_row(view, now_s, usual_s, is_beyond_scatter=True)


def _pace_row(view: View, now_s: float, usual_s: float, *, is_beyond_scatter: bool) -> Evidence:
    is_slower = is_beyond_scatter and now_s >= view.limits[_CHANGE] * usual_s
    return inner(
        "gen_s_per_token",
        now_s,
        "s",
        view.ledger_source,
        Reference("baseline", usual_s),
        "supports" if is_slower else "contradicts",
    )


def _reference(row: Evidence) -> float:
    return row.compared_with.value if row.compared_with is not None else 1.0


def _recoverable(view: View, slow: list[Evidence]) -> Recoverable | None:
    """What faster decoding gives back, by the best yardstick there is.

    The own past says how fast these engines are. Memory bandwidth says how fast this model can be
    decoded. A usual rate alone says neither: a large model may not be decoded any faster.
    """
    gen_s = view.seconds(stages.GEN)
    limits, values = view.limits, {row.metric: row for row in slow}
    past = values.get("gen_s_per_token")
    rate, bandwidth = values.get(_RATE), values.get(_BANDWIDTH_METRIC)
    fast_s = gen_s * (1 - rate.value / limits[_FAST]) if rate is not None else None
    if past is not None and past.value > 0:
        growth = past.value / _reference(past)
        usual_s = gen_s * (1 - 1 / growth)
        return Recoverable.around(usual_s, gen_s * (1 - limits[_CHANGE] / growth), fast_s)
    if bandwidth is not None:
        return Recoverable.between(
            gen_s * (1 - bandwidth.value / limits[_BANDWIDTH]),
            gen_s * (1 - bandwidth.value / limits[_USUAL_BANDWIDTH]),
        )
    if rate is not None:
        return Recoverable.around(gen_s * (1 - rate.value / limits[_SLOW]), 0.0, fast_s)
    return None


RULE = Rule(
    code="rollout.engine",
    family=ROLLOUT,
    title="the rollout engines decode slowly",
    proof="Decoding is uniformly slow: slowest to mean time under 1.3 over all of gen, with few "
    "tokens/s a sample, more seconds a token than the baseline, or GPU memory hardly read "
    "(measured, or computed from the samples' tokens and the model). With an ordinary rate the "
    "verdict stays low; without any rate nothing is proven. No more than medium where nobody "
    "reports preemptions and no engine shows room in its KV cache.",
    recoverable="back to the own usual seconds a token; at least to within 1.25 of them, at most "
    "to the fastest usual rate. Else, where memory bandwidth is known, gen x (1 - bandwidth / "
    "bandwidth of usual decoding), between 0.30 and 0.50 of the peak, the estimate midway. Else "
    "gen x (1 - rate / slowest usual rate), from nothing, since a large model may decode no "
    "faster, up to the fastest usual rate",
    reads=(
        "timing_s/agent_loop/generate_sequences/*",
        "response_length/mean",
        "trajectories",
        "engine tokens and running requests",
        "GPU memory traffic",
        "memory bandwidth of decoding: model configuration, GPU model, tokens by replica",
    ),
    thresholds=(
        _UNIFORM,
        _SLOW,
        _FAST,
        _DRAM,
        _BANDWIDTH,
        _USUAL_BANDWIDTH,
        "rollout.long_tail.span_ratio",
        _CHANGE,
        "finding.scatter",
        WORK_LIMIT,
        KV_LIMIT,
    ),
    sources=(
        "trajectories",
        "agent_loop",
        "engines",
        "preemptions",
        "gpus",
        "model",
        "baseline",
    ),
    next=(
        Advice("Raise the number of sequences decoded together.", ("engine.concurrency",)),
        Advice("Turn eager mode off: let the engine use CUDA graphs.", ("engine.eager",)),
        Advice("Use quantised weights for the rollout.", ("engine.quantisation",)),
        Advice("Keep prefixes in the cache.", ("engine.prefix_cache",)),
        Advice("Decode and prefill on GPUs of their own.", ("engine.disaggregation",)),
        Advice(
            "Check the engines' topology: GPUs of one replica, links between them.",
            ("engine.parallel",),
        ),
    ),
    judge=_judge,
)
