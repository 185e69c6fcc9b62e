"""Logs as each generation of verl's trainers writes them, from the description of its formats.

`log_calls` returns what a trainer hands to its logger, call by call; `console_lines` and
`jsonl_lines` print that as verl does. One kind for each trainer path and release in which names
or nesting changed. All runs have 16 GPUs and 850,400 tokens a step; rollout takes most of a step.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence

Scalars = dict[str, float]
Call = tuple[int, Scalars]

GPUS = 16
TOKENS = 850_400
RAY_PREFIX = "\x1b[36m(TaskRunner pid=31337)\x1b[0m "

# Seconds of the disjoint stages of a synchronous step.
_SECONDS = {
    "gen": 150.25,
    "reward": 0.75,
    "old_log_prob": 9.5,
    "ref": 8.25,
    "adv": 0.25,
    "update_actor": 38.5,
}
_CRITIC_SECONDS = {"values": 8.0, "update_critic": 52.5}
_BETWEEN_S = 1.5
_TESTING_S, _SAVE_S = 36.0, 12.5
TESTING_PERIOD, SAVE_PERIOD = 3, 4

KINDS = (
    "first",
    "0.4",
    "0.5",
    "0.6",
    "0.7.0",
    "0.7.1",
    "0.8",
    "0.9-v0",
    "0.9-v1",
    "separate_async",
    "one_step_off",
    "fully_async",
)
# Where a release counts validation and checkpoints: inside the step or between steps.
INSIDE: Mapping[str, frozenset[str]] = {
    # Nobody can tell there: no seconds of the step are logged.
    "first": frozenset(),
    "0.4": frozenset({"testing", "save_checkpoint"}),
    "0.5": frozenset({"testing", "save_checkpoint"}),
    "0.6": frozenset(),
    "0.7.0": frozenset(),
    "one_step_off": frozenset(),
    "fully_async": frozenset(),
}
_SAVE_INSIDE = frozenset({"save_checkpoint"})
# Agent-loop figures exist here.
_AGENT_LOOP = frozenset({"0.7.0", "0.7.1", "0.8", "0.9-v0", "one_step_off"})
_UPDATE_WEIGHTS = frozenset({"0.7.1", "0.8", "0.9-v0", "0.9-v1", "separate_async"})


def inside_of(kind: str) -> frozenset[str]:
    """Return which of testing and save_checkpoint lie inside the step."""
    return INSIDE.get(kind, _SAVE_INSIDE)


def log_calls(kind: str, num_steps: int = 8, *, critic: bool = False) -> list[Call]:
    """Return the calls of a run: validation before training as step 0, then each step."""
    calls: list[Call] = [] if kind in ("first", "fully_async") else [(0, _validation(0.25))]
    for step in range(1, num_steps + 1):
        scale = 1.0 + 0.01 * math.sin(step)
        calls += _calls_of_step(kind, step, scale, critic=critic)
    return calls


def console_lines(
    calls: Iterable[Call], prefix: str = RAY_PREFIX, style: str = "numpy"
) -> list[str]:
    """Return console lines without line ends. Style: `numpy` (as of 2), `plain`, `rounded`."""
    return [
        prefix
        + " - ".join(
            [f"step:{step}", *(f"{name}:{_format(name, v, style)}" for name, v in scalars.items())]
        )
        for step, scalars in calls
    ]


def jsonl_lines(calls: Iterable[Call]) -> list[str]:
    """Return lines of the file logger without line ends; NaN is null, as orjson writes it."""
    return [
        json.dumps(
            {
                "step": step,
                "data": {
                    name: value if math.isfinite(value) else None for name, value in scalars.items()
                },
            },
            separators=(",", ":"),
        )
        for step, scalars in calls
    ]


def merged(calls: Iterable[Call]) -> dict[int, Scalars]:
    """Return all scalars by step."""
    steps: dict[int, Scalars] = {}
    for step, scalars in calls:
        steps.setdefault(step, {}).update(scalars)
    return steps


def wrap(lines: Sequence[str], width: int, *, keep_blanks: bool = True) -> list[str]:
    """Return lines as copied from a terminal of this width."""
    rows: list[str] = []
    for line in lines:
        rows += [line[at : at + width] for at in range(0, len(line), width)] or [""]
    if keep_blanks:
        return rows
    return [row.rstrip(" ") for row in rows]


def _format(name: str, value: float, style: str) -> str:
    if style == "rounded":
        return f"{value:.3f}"
    if style == "numpy" and name.startswith(("num_turns/", "timing_s/agent_loop/", "training/off")):
        return f"np.{'int64' if isinstance(value, int) else 'float64'}({value!r})"
    return repr(value)


def _validation(accuracy: float) -> Scalars:
    return {
        "val-core/openai/gsm8k/acc/mean@1": accuracy,
        "val-core/math_dapo/acc/best@32/mean": accuracy + 0.1,
        "val-aux/openai/gsm8k/reward/std@4": 0.0,
        "val-aux/num_turns/min": 2,
    }


def _calls_of_step(kind: str, step: int, scale: float, *, critic: bool) -> list[Call]:
    if kind == "first":
        return [(step, _first_version(scale, critic=critic))]
    if kind == "fully_async":
        return _fully_async(step, scale)
    seconds = {name: value * scale for name, value in _SECONDS.items()}
    if critic:
        seconds |= {name: value * scale for name, value in _CRITIC_SECONDS.items()}
    seconds |= _extra_seconds(kind, scale)
    step_s = math.fsum(seconds.values()) + _BETWEEN_S
    periodic = _periodic(step)
    step_s += sum(value for name, value in periodic.items() if name in inside_of(kind))
    if kind == "one_step_off":
        # Nested in sync_rollout_weights, and a background task of the step before.
        seconds |= {"update_weights": 2.0 * scale, "generate_async": 140.0 * scale}
    scalars = _statistics(kind, step, critic=critic)
    if "testing" in periodic:
        scalars |= _validation(0.25 + step / 100)
    scalars |= _agent_loop(seconds["gen"]) if kind in _AGENT_LOOP else {}
    if kind in ("0.4", "0.5", "0.6"):
        scalars |= _sync_rollout(seconds["gen"])
    scalars |= {f"timing_s/{name}": value for name, value in seconds.items()}
    scalars |= {f"timing_s/{name}": value for name, value in periodic.items()}
    scalars["timing_s/step"] = step_s
    scalars["timing_per_token_ms/gen"] = seconds["gen"] * 1e3 / (0.87 * TOKENS)
    scalars["timing_per_token_ms/update_actor"] = seconds["update_actor"] * 1e3 / TOKENS
    scalars |= {
        "perf/total_num_tokens": TOKENS,
        "perf/time_per_step": step_s,
        "perf/throughput": TOKENS / (step_s * GPUS),
    }
    if kind in ("0.9-v1", "separate_async"):
        scalars |= {
            "training/num_turns/mean": 2.0,
            "training/off_policy/trajectory_spans/mean": 1.0,
            "training/off_policy/trajectory_staleness/max": 0,
        }
    return [(step, scalars)]


def _extra_seconds(kind: str, scale: float) -> Scalars:
    seconds: Scalars = {}
    if kind in _UPDATE_WEIGHTS:
        seconds["update_weights"] = 4.0 * scale
    if kind == "separate_async":
        seconds |= {"switch_wait": 3.0, "switch_to_trainer": 1.0, "switch_to_rollout": 1.25}
    if kind == "one_step_off":
        seconds["sync_rollout_weights"] = 5.0 * scale
    if kind == "0.9-v0":
        seconds["dump_rollout_generations"] = 0.5
    return seconds


def _periodic(step: int) -> Scalars:
    periodic: Scalars = {}
    if step % TESTING_PERIOD == 0:
        periodic["testing"] = _TESTING_S
    if step % SAVE_PERIOD == 0:
        periodic["save_checkpoint"] = _SAVE_S
    return periodic


def _first_version(scale: float, *, critic: bool) -> Scalars:
    scalars: Scalars = {"mfu/actor": 0.37, "critic/kl": 0.001, "critic/kl_coeff": 0.001}
    scalars |= {"actor/entropy_loss": 0.31, "critic/score/mean": 0.44}
    scalars |= {f"timing/{name}": value * scale for name, value in _SECONDS.items()}
    if critic:
        scalars |= {f"timing/{name}": value * scale for name, value in _CRITIC_SECONDS.items()}
        scalars["mfu/critic"] = 0.36
    return scalars


def _statistics(kind: str, step: int, *, critic: bool) -> Scalars:
    memory = "actor/perf/" if kind[:3] in ("0.8", "0.9") or "async" in kind else "perf/"
    scalars: Scalars = {
        "global_seqlen/min": 48_898,
        "global_seqlen/max": 57_933,
        "global_seqlen/balanced_max": 53_157,
        "global_seqlen/mean": TOKENS / GPUS,
        "actor/entropy": 0.3149,
        "actor/kl_loss": 0.0014,
        "actor/pg_clipfrac": 0.0006,
        "actor/ppo_kl": -1.8552509687647374e-05,
        "actor/grad_norm": 0.16,
        "perf/mfu/actor": 0.372,
        f"{memory}max_memory_allocated_gb": 71.25,
        f"{memory}cpu_memory_used_gb": 199.4929539345072,
        "actor/lr": 1e-06,
        "training/global_step": step,
        "training/epoch": 0,
        "critic/score/mean": 0.4476,
        "critic/advantages/min": -2.47,
        "response_length/mean": 1476.78,
        "response_length/max": 8192.0,
        "response_length/clip_ratio": 0.01,
        "prompt_length/mean": 184.15,
    }
    if kind == "0.7.0":
        scalars["perf/mfu/actor_infer"] = 0
    if kind[:3] in ("0.7", "0.8", "0.9"):
        scalars |= {"num_turns/min": 2, "num_turns/mean": 2.0}
    if critic:
        scalars |= {"critic/vf_loss": 0.02, "critic/vpred_mean": 0.4, "perf/mfu/critic": 0.36}
        scalars["critic/vf_explained_var"] = 0.61
    return scalars


def _agent_loop(gen_s: float) -> Scalars:
    prefix = "timing_s/agent_loop/"
    return {
        f"{prefix}num_preempted/min": -1,
        f"{prefix}num_preempted/max": -1,
        f"{prefix}generate_sequences/min": 4.5,
        f"{prefix}generate_sequences/max": gen_s * 0.98,
        f"{prefix}generate_sequences/mean": gen_s * 0.43,
        f"{prefix}tool_calls/max": 0.0,
        f"{prefix}tool_calls/mean": 0.0,
        f"{prefix}slowest/generate_sequences": gen_s * 0.98,
        f"{prefix}slowest/tool_calls": 0.0,
        f"{prefix}slowest/num_preempted": -1,
        f"{prefix}slowest/prompt_length": 180,
        f"{prefix}slowest/response_length": 8192,
    }


def _sync_rollout(gen_s: float) -> Scalars:
    return {
        "timing_s/generate_sequences": gen_s * 0.9,
        "timing_s/reshard": 2.5,
        "timing_s/generation_timing/max": gen_s * 0.95,
        "timing_s/generation_timing/topk_ratio": 0.125,
    }


def _fully_async(step: int, scale: float) -> list[Call]:
    """Return the calls about one parameter version: rollouter, validation, trainer."""
    # Times are sums over the mini-steps between two synchronisations.
    seconds = {"wait_for_enough_samples": 30.0 * scale, "gen": 90.0 * scale, "reward": 0.01}
    seconds |= {"old_log_prob": 20.0 * scale, "adv": 0.5, "update_actor": 120.0 * scale}
    step_s = math.fsum(seconds.values()) + 6.0 * scale + _BETWEEN_S
    scalars = _statistics("fully_async", step * 4, critic=False)
    scalars |= {f"timing_s/{name}": value for name, value in seconds.items()}
    scalars |= {
        "timing_s/timing_s/param_sync": 6.0 * scale,
        "timing_s/step": step_s,
        "perf/total_num_tokens": TOKENS,
        "perf/time_per_step": step_s,
        "perf/throughput": TOKENS / (step_s * GPUS),
        "fully_async/trainer/idle_ratio": seconds["gen"] / step_s,
        "fully_async/count/stale_trajectory_processed": step * 10,
        "fully_async/count/current_param_version": step,
        "fully_async/static/max_queue_size": 1024,
        "fully_async/monitor/queue/mq_queue_size": 12,
    }
    rollouter: Scalars = {
        "fully_async/rollouter/active_time": 200.0,
        "fully_async/rollouter/version_time": 250.0,
        "fully_async/rollouter/idle_ratio": 0.2,
    }
    calls: list[Call] = [(step, rollouter)]
    if step % TESTING_PERIOD == 0:
        calls.append((step, _validation(0.3) | {"fully_async/rollouter/validate_time": 31.0}))
    return [*calls, (step, scalars)]
