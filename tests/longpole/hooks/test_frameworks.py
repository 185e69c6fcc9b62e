"""Frameworks with the modules, names and signatures of the real ones, each in its own process.

Nothing but a variable of the environment turns recording on.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.sdk_receiver import FakeReceiver

AGENT = Path(__file__).parents[3] / "agent"
WANDB = """
class Run:
    step = 40
    project, name = "wandb-project", "wandb-name"
    def log(self, data, step=None, commit=None):
        Run.step += 1
run = Run()
# The real one sets `log` when a run begins, long after the import.
"""
SLIME = """
from wandb.sdk import wandb_run as wandb
def log(args, metrics, step_key):
    if args.use_wandb:
        wandb.run.log(metrics)
"""
SLIME_CALLS = """
from types import SimpleNamespace
from slime.observability import logging_utils
args = SimpleNamespace(use_wandb=True, wandb_project="math", wandb_group="glm",
                       advantage_estimator="grpo")
def log(key, metrics):
    logging_utils.log(args, metrics, step_key=key)
log("rollout/step", {"rollout/raw_reward": 0.5, "rollout/step": 3})
for step, loss in ((6, 1.0), (7, 2.0)):
    log("train/step", {"train/loss": loss, "train/step": step})
log("rollout/step", {"perf/train_time": 4.0, "perf/step_time": 9.0, "rollout/step": 3})
"""
OPENRLHF = """
class BasePPOTrainer:
    wandb_logger = tensorboard_logger = None
    def __init__(self, args):
        self.args = args
    def save_logs_and_checkpoints(self, global_step, logs_dict=None, client_states=None):
        return "saved"
class PPOTrainer(BasePPOTrainer):
    pass
"""
OPENRLHF_CALLS = """
from types import SimpleNamespace as Name
from openrlhf.trainer.ppo_trainer import PPOTrainer
wandb = Name(project="openrlhf_train_ppo", run_name="ppo_1129")
trainer = PPOTrainer(Name(logger=Name(wandb=wandb)))
logs = {"timing/generation": 2.0, "reward": None, "kl": 0.25, "generated_samples": ["a", 1]}
assert trainer.save_logs_and_checkpoints(2, logs, client_states={}) == "saved"
"""
OPENRLHF_BEFORE = OPENRLHF.replace("self, global_step", "self, args, global_step, step_bar")
OPENRLHF_BEFORE_CALLS = """
from types import SimpleNamespace as Name
from openrlhf.trainer.ppo_trainer import PPOTrainer
args = Name(wandb_project="openrlhf_train_ppo", wandb_run_name="ppo_1129")
PPOTrainer(args).save_logs_and_checkpoints(
    args, 2, None, {"timing/generation": 2.0, "kl": 0.25}, {})
"""
NEMO_RL = """
class LoggerInterface:
    pass
class Logger(LoggerInterface):
    def __init__(self, cfg):
        self.loggers = []
    def log_metrics(self, metrics, step, prefix="", step_metric=None, step_finished=False):
        for logger in self.loggers:
            logger.log_metrics(metrics, step, prefix, step_metric, step_finished)
"""
NEMO_RL_CALLS = """
from nemo_rl.utils.logger import Logger
logger = Logger({"log_dir": "logs/exp_001", "wandb_enabled": False,
                 "wandb": {"project": "grpo", "name": "llama"}})
logger.log_metrics({"loss": 0.5, "grad_norm": [1]}, 4, prefix="train")
logger.log_metrics({"generation": 2.5}, 4, prefix="timing/train", step_finished=True)
logger.log_metrics({"node.0.gpu.0.util": 90.0, "ray/ray_step": 1}, 1, "ray", "ray/ray_step")
"""
AREAL = """
class StatsLogger:
    def __init__(self, config, ft_spec):
        self.exp_config, self.config, self.ft_spec = config, config.stats_logger, ft_spec
    def commit(self, epoch, step, global_step, data):
        pass
"""
AREAL_CALLS = """
from types import SimpleNamespace as Name
from areal.utils.stats_logger import StatsLogger
config = Name(stats_logger=Name(experiment_name="gsm8k", trial_name="trial0"))
StatsLogger(config, None).commit(0, 4, 4, [
    {"timeperf/rollout": 3.0, "rollout/reward__count": 8.0}, {"timeperf/rollout": 9.0, "x": 1.0}])
"""
SKYRL_TRACKING = """
class Tracking:
    def __init__(self, project_name, experiment_name, backend="console", config=None, tags=None):
        self.backend = backend
    def log(self, data, step, commit=False):
        pass
"""
SKYRL_UTILS = """
class Timer:
    def __init__(self, message, update_dict=None):
        self.message, self.update_dict = message, update_dict
    def __enter__(self):
        return self
    def __exit__(self, exc_type, exc_val, exc_tb):
        if self.update_dict is not None:
            self.update_dict[self.message] = self.update_dict.get(self.message, 0.0) + 1.0
    async def __aenter__(self):
        return self
    async def __aexit__(self, exc_type, exc_val, exc_tb):
        pass
"""
SKYRL_CALLS = """
import asyncio
from skyrl.train.utils.tracking import Tracking
from skyrl.train.utils.utils import Timer
class Trainer:
    global_step = 5
    def __init__(self):
        self.all_timings, self.tracker = {}, Tracking("sky", "gsm8k", backend="console")
    async def train(self):
        with Timer("load_checkpoints"):
            pass
        with Timer("step", self.all_timings):
            async with Timer("generate", self.all_timings):
                await asyncio.sleep(0.01)
            with Timer("train_critic_and_policy", self.all_timings):
                with Timer("policy_train", self.all_timings):
                    pass
        timing = {f"timing/{name}": seconds for name, seconds in self.all_timings.items()}
        self.tracker.log({**timing, "reward/avg_raw_reward": 0.5}, step=5, commit=True)
asyncio.run(Trainer().train())
"""
ROLL = """
class BaseTracker:
    def log(self, values, step, **kwargs):
        pass
def create_tracker(tracker_name, config, **kwargs):
    return BaseTracker()
"""
ROLL_CALLS = """
from roll.utils.tracking import create_tracker
tracker = create_tracker(tracker_name=None, config={"exp_name": "rlvr-qwen"})
tracker.log(values={"time/step_total": 0, "actor/pg_loss@sum": 0.5}, step=0)
tracker.log(values={"time/step_total": 31.5, "actor/pg_loss@sum": 0.25}, step=1)
"""
PRIME_RL = """
MONITORS = []
async def log(data, step, kind="train", subset="effective"):
    for monitor in MONITORS:
        await monitor.log(data, step=step, kind=kind, subset=subset)
"""
PRIME_RL_CALLS = """
import asyncio
import prime_rl.{process}
from prime_rl import monitors
async def main():
    await monitors.log({{"time/step": 7.0, "train/agg/effective/solver/reward/mean": 0.5}}, step=2)
    await monitors.log(["an episode"], 2, "train", "all")
asyncio.run(main())
"""
OPEN_INSTRUCT_CALLS = """
import wandb.sdk.wandb_run as wandb
wandb.run.log({"time/total": 3.0, "global_step": 512, "training_step": 6}, step=512)
"""
Points = dict[str, tuple[int, float]]


def run(tmp_path: Path, modules: dict[str, str], calls: str, **variables: str) -> FakeReceiver:
    for name, text in {"wandb/sdk/wandb_run.py": WANDB, **modules}.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    # As Python does with its site-packages when it starts.
    program = f"import site; site.addsitedir({str(AGENT)!r})\n{calls}"
    with FakeReceiver() as receiver:
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
                "LONGPOLE_ENDPOINT": receiver.endpoint,
                "LONGPOLE_AUTOLOG": "1",
                **variables,
            },
        )
    return receiver


def read(receiver: FakeReceiver) -> Points:
    return {
        point.name: (point.attributes["rl.loop.iteration"], point.value)
        for point in receiver.points()
    }


def read_resource(receiver: FakeReceiver) -> dict[str, Any]:
    return dict(receiver.points()[0].resource)


@pytest.mark.parametrize(
    ("modules", "calls", "run_id", "system", "expected"),
    [
        (
            {"slime/observability/logging_utils.py": SLIME},
            SLIME_CALLS,
            "math/glm",
            "slime",
            {
                "rollout/raw_reward": (3, 0.5),
                "train/loss": (3, 1.5),
                "perf/train_time": (3, 4.0),
                "perf/step_time": (3, 9.0),
            },
        ),
        (
            {"openrlhf/trainer/ppo_trainer.py": OPENRLHF},
            OPENRLHF_CALLS,
            "openrlhf_train_ppo/ppo_1129",
            "openrlhf",
            {"timing/generation": (2, 2.0), "kl": (2, 0.25)},
        ),
        (
            {"openrlhf/trainer/ppo_trainer.py": OPENRLHF_BEFORE},
            OPENRLHF_BEFORE_CALLS,
            "openrlhf_train_ppo/ppo_1129",
            "openrlhf",
            {"timing/generation": (2, 2.0), "kl": (2, 0.25)},
        ),
        (
            {"nemo_rl/utils/logger.py": NEMO_RL},
            NEMO_RL_CALLS,
            "grpo/llama",
            "nemo_rl",
            {"train/loss": (4, 0.5), "timing/train/generation": (4, 2.5)},
        ),
        (
            {"areal/utils/stats_logger.py": AREAL},
            AREAL_CALLS,
            "gsm8k/trial0",
            "areal",
            {"timeperf/rollout": (5, 3.0), "x": (5, 1.0)},
        ),
        (
            {"roll/utils/tracking.py": ROLL},
            ROLL_CALLS,
            None,
            "roll",
            {"step_seconds": (0, 31.5), "time/step_total": (1, 31.5), "actor/pg_loss": (1, 0.25)},
        ),
    ],
    ids=["slime", "openrlhf", "openrlhf before", "nemo_rl", "areal", "roll"],
)
def test_what_a_framework_logs_is_recorded_once_under_its_own_step(
    tmp_path: Path,
    modules: dict[str, str],
    calls: str,
    run_id: str | None,
    system: str,
    expected: Points,
) -> None:
    receiver = run(tmp_path, modules, calls)
    assert read(receiver) == expected
    resource = read_resource(receiver)
    assert resource.get("rl.run.id") == run_id
    assert resource["rl.system"] == system
    assert resource["rl.role"] == "controller" or system == "slime"


@pytest.mark.parametrize(
    ("process", "role", "name"),
    [
        ("trainer.rl.train", "controller", "time/step"),
        ("orchestrator.orchestrator", "rollout", "orchestrator/time/step"),
    ],
)
def test_prime_rl_s_two_processes_are_one_run_with_seconds_of_their_own(
    tmp_path: Path, process: str, role: str, name: str
) -> None:
    modules = {
        "prime_rl/monitors/__init__.py": PRIME_RL,
        f"prime_rl/{process.replace('.', '/')}.py": "",
    }
    receiver = run(tmp_path, modules, PRIME_RL_CALLS.format(process=process), PRL_RUN_ID="7f3a")
    points = read(receiver)
    assert points[name] == (2, 7.0)
    assert len([each for each in points if each.endswith("time/step")]) == 1
    assert ("reward_mean" in points) == (role == "rollout")
    resource = read_resource(receiver)
    assert (resource["rl.run.id"], resource["rl.role"]) == ("prime_rl/7f3a", role)


def test_skyrl_s_timers_are_windows(tmp_path: Path) -> None:
    modules = {
        "skyrl/train/utils/tracking.py": SKYRL_TRACKING,
        "skyrl/train/utils/utils.py": SKYRL_UTILS,
    }
    receiver = run(tmp_path, modules, SKYRL_CALLS)
    spans = receiver.spans()
    assert {
        (span.attributes["rl.loop.iteration"], span.attributes.get("rl.stage", span.name))
        for span in spans
    } == {(5, "rl.loop"), (5, "generate"), (5, "policy_train")}
    (generate,) = [span for span in spans if span.attributes.get("rl.stage") == "generate"]
    assert generate.end_ns - generate.start_ns >= 10_000_000
    points = read(receiver)
    assert points["timing/step"] == (5, 1.0)
    assert points["reward/avg_raw_reward"] == (5, 0.5)
    assert read_resource(receiver)["rl.run.id"] == "sky/gsm8k"


def test_what_has_no_hook_is_taken_from_its_logger(tmp_path: Path) -> None:
    receiver = run(tmp_path, {}, OPEN_INSTRUCT_CALLS)
    assert read(receiver)["time/total"] == (6, 3.0)
    assert read_resource(receiver)["rl.run.id"] == "wandb-project/wandb-name"


@pytest.mark.parametrize("value", ["", "off", "0"])
def test_without_the_variable_nothing_is_recorded(tmp_path: Path, value: str) -> None:
    modules = {"slime/observability/logging_utils.py": SLIME}
    assert run(tmp_path, modules, SLIME_CALLS, LONGPOLE_AUTOLOG=value).requests == []


def test_an_unknown_version_is_named_once_and_left_alone(tmp_path: Path) -> None:
    modules = {"slime/observability/logging_utils.py": "def report(args, metrics): print('mine')"}
    calls = "from slime.observability import logging_utils\nlogging_utils.report(None, {})"
    assert run(tmp_path, modules, calls).requests == []
