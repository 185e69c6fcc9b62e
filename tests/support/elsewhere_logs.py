"""A lived run as the log of its trainer: console lines as people paste them, and JSONL."""

import json
import pprint
import re
from collections.abc import Callable, Mapping, Sequence

from support.elsewhere_scalars import Scalars, areal, figures, nemo_rl, openrlhf, skyrl, slime, verl
from support.elsewhere_world import StepLived, World

_ANSI = re.compile(r"\x1b\[\d*m")
CYAN, PLAIN = "\x1b[36m", "\x1b[0m"


def agent_loop(step: StepLived) -> Scalars:
    """Return what verl's agent loop makes of the samples; counts wear the prefix of times."""
    prefix = "timing_s/agent_loop/"
    columns = {
        "generate_sequences": [s.spent_s("generate") + s.spent_s("queue") for s in step.samples],
        "tool_calls": [s.spent_s("tool") for s in step.samples],
        "compute_score": [s.spent_s("score") for s in step.samples],
        "num_preempted": [-1 if s.preemptions is None else s.preemptions for s in step.samples],
    }
    found: Scalars = {}
    for name, values in columns.items():
        found[f"{prefix}{name}/min"] = min(values)
        found[f"{prefix}{name}/max"] = max(values)
        found[f"{prefix}{name}/mean"] = sum(values) / len(values)
    place = max(
        range(len(step.samples)),
        key=lambda at: sum(columns[name][at] for name in list(columns)[:3]),
    )
    for name, values in columns.items():
        found[f"{prefix}slowest/{name}"] = values[place]
    found[prefix + "slowest/prompt_length"] = step.samples[place].prompt
    found[prefix + "slowest/response_length"] = step.samples[place].output
    return found


def verl_scalars(world: World, step: StepLived, *, loops: bool) -> Scalars:
    found = {**figures(world, step), **verl(step), **step.scalars}
    if step.samples:
        truncated = sum(sample.status == "truncated" for sample in step.samples)
        found["response_length/clip_ratio"] = truncated / len(step.samples)
        if loops:
            found |= agent_loop(step)
            # Scoring inside the rollout leaves this in its place.
            found.setdefault("timing_s/reward", 2.1e-05)
    return found


def verl_console(world: World, steps: Sequence[StepLived], *, old: bool) -> str:
    """Console lines under Ray: colours, foreign lines between, wrapped as a terminal does it."""
    chance = world.chance
    name = "main_task" if old else "TaskRunner"
    width = chance.choice([0, 0, 180, 211])
    lines: list[str] = []
    for step in steps:
        scalars = verl_scalars(world, step, loops=not old)
        parts = [f"step:{step.number}"]
        for key, value in scalars.items():
            shown = f"{value:.3f}" if old else repr(value)
            if not old and chance.random() < 0.2 and isinstance(value, float):
                shown = f"np.float64({value!r})"
            parts.append(f"{key}:{shown}")
        body = " - ".join(parts)
        lines.append(f"{CYAN}({name} pid=4123){PLAIN} {body}")
        done = f"Training Progress:  {step.number}%|▏   | {step.number}/100 [01:02<9:21, 8.1s/it]"
        lines.append(f"\r{CYAN}({name} pid=4123){PLAIN} {done}")
        lines.append("(WorkerDict pid=991) INFO 10-07 07:01:41 saved [repeated 7x across cluster]")
    if width:
        # What is copied off a terminal has lost its colours.
        lines = [_wrap(_ANSI.sub("", line).lstrip("\r"), width) for line in lines]
    return "\n".join(lines) + "\n"


def verl_file(world: World, steps: Sequence[StepLived]) -> str:
    return "".join(
        json.dumps({"step": step.number, "data": verl_scalars(world, step, loops=True)}) + "\n"
        for step in steps
    )


def slime_console(world: World, steps: Sequence[StepLived]) -> str:
    lines: list[str] = []
    for step in steps:
        timed = slime(step)
        rollout = {
            "rollout/response_len/mean": figures(world, step).get("response_length_mean", 900.0),
            "perf/rollout_time": timed.pop("perf/rollout_time"),
        }
        for process, values in (("RolloutManager", rollout), ("MegatronTrainRayActor", timed)):
            lines.append(
                f"({process} pid=7, ip=10.0.0.2) [2026-01-05 10:00:00] train_metric_utils.py:44 - "
                f"perf {step.number}: {values!r}"
            )
    return "\n".join(lines) + "\n"


def openrlhf_console(world: World, steps: Sequence[StepLived]) -> str:
    return "".join(
        f"(PPOTrainer pid=5) INFO 01-05 10:00:00 ppo_trainer.py:207] ✨ Global step {step.number}: "
        f"{ {**openrlhf(step), 'response_length': 812.0, 'dynamic_filtering_pass_rate': 93.0}!r}\n"
        for step in steps
    )


def nemo_console(world: World, steps: Sequence[StepLived]) -> str:
    lines: list[str] = []
    for step in steps:
        timed = {key.removeprefix("timing/train/"): value for key, value in nemo_rl(step).items()}
        total = timed.pop("total_step_time")
        timed.pop("valid_tokens_per_sec_per_gpu")
        lines.append(f"{'=' * 25} Step {step.number + 1}/100 {'=' * 25}")
        lines.append("\n⏱️  Timing:")
        lines.append(f"  • Total step time: {total:.2f}s")
        for key, value in sorted(timed.items(), key=lambda item: -item[1]):
            lines.append(f"  • {key}: {value:.2f}s ({100 * value / total:.1f}%)")
    return "\n".join(lines) + "\n"


def areal_console(world: World, steps: Sequence[StepLived]) -> str:
    lines: list[str] = []
    head = "20260105-10:00:00.000 StatsLogger INFO:"
    for step in steps:
        lines.append(
            f"{head} Epoch 1/1 Step {step.number + 1}/99 Train step {step.number + 1}/99 done."
        )
        lines.append(f"{head} Stats (1/1): ")
        lines.append("╭──────────────────────────┬─────────────╮")
        lines += [f"│ {key:<36} │ {value:.4e} │" for key, value in areal(step).items()]
        lines.append("╰──────────────────────────┴─────────────╯")
    return "\n".join(lines) + "\n"


def skyrl_console(world: World, steps: Sequence[StepLived]) -> str:
    lines: list[str] = []
    for step in steps:
        shown = {key: f"{value:.4f}" for key, value in skyrl(step).items()}
        lines.append(
            "2026-01-05 10:00:00.1 | INFO | skyrl.train.utils.tracking:log:101 - "
            f"Step {step.number}: "
        )
        lines.append(pprint.pformat(shown))
    return "\n".join(lines) + "\n"


def roll_console(world: World, steps: Sequence[StepLived]) -> str:
    lines: list[str] = []
    before = 0.0
    for step in steps:
        values = {
            "time/step_total": before,
            "time/step_generate": step.seconds("gen"),
            "time/old_log_probs": step.seconds("old_log_prob"),
            "time/ref_log_probs_values": step.seconds("ref"),
            "time/step_train": step.seconds("update_actor"),
            "time/step_model_update": step.seconds("update_weights"),
        }
        before = step.duration_s
        document = {"step": step.number, "metrics": values}
        lines.append(f"metrics_tag: {json.dumps(document)}")
    return "\n".join(lines) + "\n"


def prime_file(world: World, steps: Sequence[StepLived]) -> str:
    return "".join(
        json.dumps(
            {
                "step": step.number,
                "time": 1.77e9 + step.end_s,
                "time/step": step.duration_s,
                "time/wait_for_batch": step.seconds("trainer_wait"),
                "time/load_data": 0.01,
                "time/forward_backward": step.seconds("update_actor"),
                "time/broadcast_weights": step.seconds("update_weights"),
                **({} if world.mfu is None else {"perf/mfu": 100 * world.mfu}),
                "perf/throughput": 9_000.0,
                "perf/throughput_per_gpu": 9_000.0 / world.gpus,
            }
        )
        + "\n"
        for step in steps
    )


def _wrap(line: str, width: int) -> str:
    return "\n".join(line[at : at + width] for at in range(0, len(line), width))


_COMMON = frozenset({"gen", "old_log_prob", "ref", "update_actor", "update_weights"})
Write = Callable[[World, Sequence[StepLived]], str]
# Writers by name, with the framework and the stages that such a log tells apart.
LOGS: Mapping[str, tuple[str, Write, frozenset[str]]] = {
    "verl_old": (
        "verl",
        lambda world, steps: verl_console(world, steps, old=True),
        _COMMON | {"reward", "adv", "values", "update_critic", "testing", "save_checkpoint"},
    ),
    "verl": (
        "verl",
        lambda world, steps: verl_console(world, steps, old=False),
        _COMMON | {"reward", "adv", "values", "update_critic", "testing", "save_checkpoint"},
    ),
    "verl_file": (
        "verl",
        verl_file,
        _COMMON | {"reward", "adv", "values", "update_critic", "testing", "save_checkpoint"},
    ),
    "slime": ("slime", slime_console, _COMMON | {"sleep_wake"}),
    "openrlhf": ("openrlhf", openrlhf_console, _COMMON | {"adv"}),
    "nemo_rl": (
        "nemo_rl",
        nemo_console,
        _COMMON | {"reward", "adv", "update_critic", "sleep_wake", "trainer_wait"},
    ),
    "areal": ("areal", areal_console, _COMMON | {"adv"}),
    "skyrl": ("skyrl", skyrl_console, _COMMON | {"adv", "update_critic", "trainer_wait"}),
    "roll": ("roll", roll_console, _COMMON),
    "prime_rl": (
        "prime_rl",
        prime_file,
        frozenset({"trainer_wait", "update_actor", "update_weights"}),
    ),
}
