"""What Longpole's hooks add to a trainer's own calls: autolog, TRL's callback, verl's plugin.

Run by hand: `python benchmarks/hooks_overhead.py [--rounds 15]`. Each library is pretended, with
the names of the real one and no work of its own, in a process of its own: as it is, and hooked.
Microseconds of CPU on the calling thread, in the median round and in the 95th percentile of the
rounds. The receiver takes everything, answers nothing, or is not there.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any

from trainer_overhead import find_dead_port, open_live_receiver, open_silent_receiver

PRETENDED_VERL = Path(__file__).parent.parent / "tests" / "support" / "pretend_verl"
METRICS = {f"group/metric_{number}": number / 7 for number in range(100)}
LOGGERS = {
    "wandb/sdk/wandb_run.py": """
class Run:
    step = 7
    def log(self, data, step=None, commit=None): pass
""",
    "torch/utils/tensorboard/writer.py": """
class SummaryWriter:
    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None): pass
    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None): pass
""",
    "mlflow/tracking/client.py": """
class MlflowClient:
    def log_metric(self, run_id, key, value, timestamp=None, step=None): pass
    def log_batch(self, run_id, metrics=(), params=(), tags=()): pass
""",
    "swanlab/sdk/internal/run.py": """
class Run:
    def log(self, data, step=None): pass
""",
    "trackio/run.py": """
class Run:
    def log(self, metrics, step=None): pass
""",
    "slime/utils/tracking_utils.py": """
def log(args, metrics, step_key): pass
""",
    "openrlhf/trainer/ppo_trainer.py": """
class PPOTrainer:
    args = None
    def save_logs_and_checkpoints(self, global_step, logs_dict=None, client_states=None): pass
""",
    "nemo_rl/utils/logger.py": """
class Logger:
    def __init__(self, cfg): pass
    def log_metrics(self, metrics, step, prefix="", step_metric=None, step_finished=False): pass
""",
    "areal/utils/stats_logger.py": """
class StatsLogger:
    config = None
    def commit(self, epoch, step, global_step, data): pass
""",
    "roll/utils/tracking.py": """
class Tracker:
    def log(self, values, step, **kwargs): pass
def create_tracker(tracker_name, config, **kwargs):
    return Tracker()
""",
    "skyrl/train/utils/tracking.py": """
class Tracking:
    def __init__(self, project_name, experiment_name): pass
    def log(self, data, step, commit=False): pass
""",
    "skyrl/train/utils/utils.py": """
class Timer:
    def __init__(self, message, update_dict=None):
        self.message, self.update_dict = message, update_dict
    def __enter__(self):
        return self
    def __exit__(self, kind, error, traceback): pass
""",
}
# (what, call, calls a round, what one call counts as)
Case = tuple[str, Callable[[], object], int, int]
RECEIVERS = (
    ("receiver takes everything", open_live_receiver),
    ("receiver answers nothing", open_silent_receiver),
    ("no receiver", find_dead_port),
)


def load(name: str) -> dict[str, Any]:
    """Import a module and return what is in it."""
    return importlib.import_module(name).__dict__


def do_nothing(*_: object, **__: object) -> None:
    """What is called when there is no hook."""


def build_logger_cases(*, has_hook: bool) -> Iterator[Case]:
    import longpole

    if has_hook:
        longpole.autolog()
        longpole.init("bench/hooks")
    run = load("wandb.sdk.wandb_run")["Run"]()
    writer = load("torch.utils.tensorboard.writer")["SummaryWriter"]()
    yield "wandb: metric of 100 logged", lambda: run.log(METRICS, step=3), 20, len(METRICS)
    yield "TensorBoard: add_scalar", lambda: writer.add_scalar("loss", 0.5, 3), 1000, 1


def build_tracker_cases(*, has_hook: bool) -> Iterator[Case]:
    import longpole

    if has_hook:
        longpole.autolog()
        longpole.init("bench/hooks")
    mlflow = load("mlflow.tracking.client")["MlflowClient"]()
    metrics = [SimpleNamespace(key=name, value=value, step=3) for name, value in METRICS.items()]
    swanlab, trackio = load("swanlab.sdk.internal.run")["Run"](), load("trackio.run")["Run"]()
    number = len(METRICS)
    yield "MLflow: metric of 100 logged", lambda: mlflow.log_batch("r", metrics), 20, number
    yield "swanlab: metric of 100 logged", lambda: swanlab.log(METRICS, step=3), 20, number
    yield "trackio: metric of 100 logged", lambda: trackio.log(METRICS, step=3), 20, number


def build_framework_cases(name: str, *, has_hook: bool) -> Iterator[Case]:
    """Yield what one framework logs: it speaks for its process."""
    import longpole

    if has_hook:
        longpole.autolog()
        longpole.init("bench/hooks")
    call = FRAMEWORK_CALLS[name]()
    yield f"{name}: metric of 100 logged", call, 20, len(METRICS)


def prepare_slime() -> Callable[[], object]:
    log = load("slime.utils.tracking_utils")
    metrics = {**METRICS, "rollout/step": 3}
    return lambda: log["log"](None, metrics, "rollout/step")


def prepare_openrlhf() -> Callable[[], object]:
    trainer = load("openrlhf.trainer.ppo_trainer")["PPOTrainer"]()
    return lambda: trainer.save_logs_and_checkpoints(3, METRICS)


def prepare_nemo_rl() -> Callable[[], object]:
    logger = load("nemo_rl.utils.logger")["Logger"]({})
    return lambda: logger.log_metrics(METRICS, 3, prefix="train")


def prepare_areal() -> Callable[[], object]:
    logger = load("areal.utils.stats_logger")["StatsLogger"]()
    return lambda: logger.commit(0, 3, 3, [METRICS])


def prepare_roll() -> Callable[[], object]:
    tracker = load("roll.utils.tracking")["create_tracker"](None, {})
    return lambda: tracker.log(values=METRICS, step=3)


FRAMEWORK_CALLS: dict[str, Callable[[], Callable[[], object]]] = {
    "slime": prepare_slime,
    "OpenRLHF": prepare_openrlhf,
    "NeMo-RL": prepare_nemo_rl,
    "AReaL": prepare_areal,
    "ROLL": prepare_roll,
}


class SkyRlTrainer:
    """SkyRL's trainer, as far as its timers look at it."""

    global_step = 1

    def __init__(self, timer: Callable[..., AbstractContextManager[object]]) -> None:
        self._timer = timer
        self._timings: dict[str, float] = {}

    def time(self, name: str) -> None:
        with self._timer(name, self._timings):
            pass


def build_skyrl_cases(*, has_hook: bool) -> Iterator[Case]:
    import longpole

    if has_hook:
        longpole.autolog()
        longpole.init("bench/hooks")
    tracking = load("skyrl.train.utils.tracking")["Tracking"]("bench", "skyrl")
    trainer = SkyRlTrainer(load("skyrl.train.utils.utils")["Timer"])
    yield "SkyRL: stage's timer", lambda: trainer.time("generate"), 300, 1
    yield "SkyRL: step's timer", lambda: trainer.time("step"), 300, 1
    yield (
        "SkyRL: metric of 100 logged",
        lambda: tracking.log(METRICS, step=3),
        20,
        len(METRICS),
    )


class ProfilingContext:
    """TRL's block, without its work."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> "ProfilingContext":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def build_trl_cases(*, has_hook: bool) -> Iterator[Case]:
    profiling = ModuleType("trl.extras.profiling")
    profiling.__dict__["ProfilingContext"] = ProfilingContext
    sys.modules[profiling.__name__] = profiling
    state, args = SimpleNamespace(global_step=1), SimpleNamespace(run_name="bench", output_dir=".")
    callback: Any = SimpleNamespace(
        on_step_begin=do_nothing, on_step_end=do_nothing, on_log=do_nothing
    )
    if has_hook:
        from longpole.hooks.trl import LongpoleCallback

        callback = LongpoleCallback()
        callback.on_train_begin(args, state, None)
        # What is inside a step stands under it.
        callback.on_step_begin(args, state, None)

    def take_step() -> None:
        callback.on_step_begin(args, state, None)
        callback.on_step_end(args, state, None)

    def enter_block() -> None:
        with ProfilingContext("GRPOTrainer.vLLM.generate"):
            pass

    yield "TRL: profiling block", enter_block, 300, 1
    yield "TRL: step", take_step, 300, 1
    yield (
        "TRL: metric of 100 logged",
        lambda: callback.on_log(args, state, None, logs=METRICS),
        20,
        len(METRICS),
    )


class Trainer:
    """verl's trainer, as far as its timers look at it."""

    def __init__(self, marked_timer: Callable[..., AbstractContextManager[None]]) -> None:
        self.global_steps = 1
        self._marked_timer = marked_timer

    def time(self, name: str) -> None:
        with self._marked_timer(name, {}):
            pass


def build_verl_cases(*, has_hook: bool) -> Iterator[Case]:
    os.environ["PRETEND_VERL_PLUGINS"] = "longpole.hooks.verl" if has_hook else ""
    load("verl")
    tracking = load("verl.utils.tracking")["Tracking"]("bench", "verl", ["console"], config={})
    trainer = Trainer(load("verl.utils.profiler")["marked_timer"])

    def log() -> None:
        tracking.log(METRICS, 1)
        tracking.logged.clear()

    yield "verl: stage's timer", lambda: trainer.time("gen"), 300, 1
    yield "verl: step's timer", lambda: trainer.time("step"), 300, 1
    yield "verl: metric of 100 logged", log, 20, len(METRICS)


BUILDERS: dict[str, Callable[..., Iterator[Case]]] = {
    "loggers": build_logger_cases,
    "trackers": build_tracker_cases,
    **{name: partial(build_framework_cases, name) for name in FRAMEWORK_CALLS},
    "skyrl": build_skyrl_cases,
    "trl": build_trl_cases,
    "verl": build_verl_cases,
}


def measure(case: Case, num_rounds: int) -> list[float]:
    """Return the microseconds of CPU of a call, round by round."""
    _, call, num_calls, per_call = case
    call()
    found: list[float] = []
    for _ in range(num_rounds):
        begun_ns = time.thread_time_ns()
        for _ in range(num_calls):
            call()
        found.append((time.thread_time_ns() - begun_ns) / num_calls / per_call / 1000)
        # Training has pauses; without any the bounded buffers would be what is measured.
        time.sleep(0.05)
    return found


def measure_here(kind: str, num_rounds: int, *, has_hook: bool) -> None:
    """Print what the calls of a library cost in this process, as JSON."""
    cases = BUILDERS[kind](has_hook=has_hook)
    print(json.dumps({case[0]: measure(case, num_rounds) for case in cases}), flush=True)
    # What is left is not waited for.
    os._exit(0)


def measure_there(
    kind: str, folder: str, port: int, num_rounds: int, *, has_hook: bool
) -> dict[str, list[float]]:
    """Return the rounds of each call of a library, from a process of its own."""
    paths = [folder, str(PRETENDED_VERL), *sys.path]
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "LONGPOLE_ENDPOINT": f"http://127.0.0.1:{port}",
    }
    command = [sys.executable, __file__, "--rounds", str(num_rounds), "--of", kind]
    done = subprocess.run(
        [*command, *(["--hook"] if has_hook else [])],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=300,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def find_p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def measure_all(num_rounds: int) -> None:
    print(f"{'microseconds of CPU a call':<34}{'plain':>10}{'hooked':>10}{'p95':>10}{'adds':>10}")
    with TemporaryDirectory() as folder:
        for path, text in LOGGERS.items():
            target = Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            for package in target.relative_to(folder).parents[:-1]:
                (Path(folder) / package / "__init__.py").touch()
            target.write_text(text)
        for title, open_receiver in RECEIVERS:
            print(f"\n{title}")
            for kind in BUILDERS:
                with open_receiver() as port:
                    plain = measure_there(kind, folder, port, num_rounds, has_hook=False)
                    hooked = measure_there(kind, folder, port, num_rounds, has_hook=True)
                for name, rounds in hooked.items():
                    before = statistics.median(plain[name])
                    after = statistics.median(rounds)
                    print(
                        f"  {name:<32}{before:>10.2f}{after:>10.2f}"
                        f"{find_p95(rounds):>10.2f}{after - before:>10.2f}",
                        flush=True,
                    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--of", choices=tuple(BUILDERS), help=argparse.SUPPRESS)
    parser.add_argument("--hook", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.of is not None:
        measure_here(arguments.of, arguments.rounds, has_hook=arguments.hook)
    measure_all(arguments.rounds)


if __name__ == "__main__":
    main()
