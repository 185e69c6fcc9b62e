"""rollout.engine: all samples decode equally slowly."""

from longpole.conventions import stages
from longpole_server.analysis.decode_bandwidth import measure_decode_bandwidth
from longpole_server.analysis.longtail_report import find_gen
from longpole_server.analysis.longtail_waste import count_rollout_gpus
from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.gen_pace import mean_response_tokens, measure_gen_pace
from longpole_server.diagnosis.gpu_activity import measure_activity
from longpole_server.diagnosis.inside_gen import InsideGen
from longpole_server.diagnosis.proof import Advice, Proof, Recoverable, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent, times
from longpole_server.model.diagnosis import Evidence, Reference

_UNIFORM = "rollout.engine.uniform_ratio"
_SLOW = "rollout.engine.slow_tokens_per_s"
_DRAM = "rollout.engine.dram_active"
_BANDWIDTH = "rollout.engine.bandwidth_ratio"
_CHANGE = "finding.change_ratio"
_OF_MEMORY = frozenset({"dram_active/gen", "rollout/decode_bandwidth_ratio"})


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
    because = (
        f"all samples take about equally long (the slowest {times(inside.time_ratio)} the mean)"
    )
    if inside.tokens_per_s is not None:
        because += f", at {inside.tokens_per_s:.0f} tokens/s each"
    for row in slow:
        if row.metric == "gen_s_per_token":
            because += f", {percent(row.value / _reference(row) - 1)} slower a token than usual"
        elif row.metric == "dram_active/gen":
            because += f", with GPU memory read {percent(row.value)} of the time"
        elif row.metric == "rollout/decode_bandwidth_ratio":
            because += f", with {percent(row.value)} of the GPUs' memory bandwidth"
    # Memory that is hardly read says that something is slow, not that it is the decoding.
    # Samples that are computed again are slow too.
    may_be_preempted = inside.leaves_preemption_open(view.limits["rollout.preemption.work_ratio"])
    weak = may_be_preempted or all(row.metric in _OF_MEMORY for row in slow)
    return Proof(
        because,
        tuple(rows),
        inner_agrees=bool(slow),
        at_most="medium" if weak else "high",
        recoverable=_recoverable(view, slow),
    )


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
                "rollout/tokens_per_s_per_sample",
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
            "rollout/decode_bandwidth_ratio",
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
    """What decoding at the slowest usual rate, or at the own usual one, would give back."""
    gen_s = view.seconds(stages.GEN)
    parts: list[float] = []
    for row in slow:
        if row.metric == "gen_s_per_token" and row.value > 0:
            parts.append(1 - _reference(row) / row.value)
        elif row.metric == "rollout/tokens_per_s_per_sample":
            parts.append(1 - row.value / view.limits[_SLOW])
    if not parts:
        return None
    return Recoverable.around(gen_s * max(parts), gen_s * min(parts) / 2)


RULE = Rule(
    code="rollout.engine",
    family=ROLLOUT,
    title="the rollout engines decode slowly",
    proof="Decoding is uniformly slow: slowest to mean time under 1.3 over all of gen, with few "
    "tokens/s a sample, more seconds a token than the baseline, or GPU memory hardly read "
    "(measured, or computed from the samples' tokens and the model). With an ordinary rate the "
    "verdict stays low; without any rate nothing is proven.",
    recoverable="gen x (1 - rate / slowest usual rate), or back to the own usual seconds a token; "
    "at least half of the smaller one",
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
        _DRAM,
        _BANDWIDTH,
        "rollout.long_tail.span_ratio",
        _CHANGE,
        "finding.scatter",
    ),
    sources=("trajectories", "agent_loop", "engines", "gpus", "model", "baseline"),
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
