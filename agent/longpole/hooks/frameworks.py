"""Frameworks' own ways to log: whichever logger they use, their own step and their own names.

What is wrapped is the one place of each framework where a step's scalars pass through. Modules and
signatures of current and of earlier versions are known; what is not there is logged once and left
out.
"""

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from longpole.conventions.metrics import STEP_SECONDS
from longpole.hooks import skyrl_timers, slime, taking
from longpole.hooks.late_imports import LateImports

_COUNTER_SUFFIX = "__count"
_ORCHESTRATOR = "prime_rl.orchestrator.orchestrator"
_TRAINER = "prime_rl.trainer.rl.train"
# Both of prime-rl's processes call their seconds alike.
_ORCHESTRATOR_NAMES = {"time/step": "orchestrator/time/step"}
_EFFECTIVE_REWARD = ("train/agg/effective/", "/reward/mean")
_ROLL_PREVIOUS, _ROLL_OWN_BESIDE = "time/step_total", "time/step_rollout"

_watcher = LateImports("autolog")
_Declared = Mapping[str, Any]


class _State:
    """Of this process."""

    is_on = False


def watch_frameworks() -> None:
    """Record what the known frameworks log from now on."""
    if _State.is_on:
        return
    _State.is_on = True
    for name, action in WATCHED.items():
        _watcher.watch(name, action)
    _watcher.install()


def _wrap(owner: Any, name: str, system: str, record: Callable[..., None]) -> None:
    """Let a function or method be recorded after it did its work; `record` takes its arguments."""
    original = getattr(owner, name)

    if inspect.iscoroutinefunction(original):

        @wraps(original)
        async def recorded_later(*args: Any, **kwargs: Any) -> Any:
            # Loggers below, in threads of their own even, are silent from here on.
            taking.take(system)
            answer = await original(*args, **kwargs)
            taking.guard(record, *args, **kwargs)
            return answer

        setattr(owner, name, recorded_later)
        return

    @wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        taking.take(system)
        answer = original(*args, **kwargs)
        taking.guard(record, *args, **kwargs)
        return answer

    setattr(owner, name, recorded)


def _read(value: object, *path: str) -> Any:
    """Return what lies under names in objects or mappings, None where one is missing."""
    for name in path:
        if isinstance(value, Mapping):
            value = cast("Mapping[str, object]", value).get(name)
        else:
            value = getattr(value, name, None)
        if value is None:
            return None
    return value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


# --- slime ---------------------------------------------------------------------------------------


def _watch_slime(module: ModuleType) -> None:
    _wrap(module, "log", slime.SYSTEM, slime.record_log)


# --- OpenRLHF ------------------------------------------------------------------------------------


def _watch_openrlhf(module: ModuleType) -> None:
    name = "save_logs_and_checkpoints"
    owners = [
        kind for kind in vars(module).values() if isinstance(kind, type) and name in vars(kind)
    ]
    if not owners:
        raise LookupError(f"no {name}")
    for owner in owners:
        signature = inspect.signature(getattr(owner, name))

        def record(
            trainer: Any, *args: Any, _signature: inspect.Signature = signature, **kwargs: Any
        ) -> None:
            # Earlier versions have more arguments, under the same names.
            given = _signature.bind(trainer, *args, **kwargs).arguments
            _record_openrlhf(trainer, given.get("global_step"), given.get("logs_dict"))

        _wrap(owner, name, "openrlhf", record)


def _record_openrlhf(trainer: Any, step: object, scalars: object) -> None:
    if not isinstance(step, int) or not isinstance(scalars, Mapping):
        return
    given = cast("Mapping[str, object]", scalars)
    args = getattr(trainer, "args", None) or _read(trainer, "strategy", "args")

    def declare() -> _Declared:
        return {
            "system": "openrlhf",
            "project": _text(
                _read(args, "logger", "wandb", "project") or _read(args, "wandb_project")
            ),
            "name": _text(
                _read(args, "logger", "wandb", "run_name") or _read(args, "wandb_run_name")
            ),
        }

    known = {name: value for name, value in given.items() if value is not None}
    taking.record("openrlhf", step, known, declare)


# --- NeMo-RL -------------------------------------------------------------------------------------


def _watch_nemo_rl(module: ModuleType) -> None:
    _wrap(module.__dict__["Logger"], "log_metrics", "nemo_rl", _record_nemo_rl)
    _keep_config(module.__dict__["Logger"])


def _keep_config(logger: Any) -> None:
    init = logger.__init__

    @wraps(init)
    def recorded_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        config = args[0] if args else kwargs.get("cfg")
        taking.guard(setattr, self, "_longpole_config", config)

    logger.__init__ = recorded_init


def _record_nemo_rl(
    logger: Any,
    metrics: Mapping[str, object],
    step: int,
    prefix: str | None = "",
    step_metric: str | None = None,
    *_: object,
    **__: object,
) -> None:
    # GPUs and nodes, on a clock of their own.
    if step_metric is not None:
        return
    named = {f"{prefix}/{name}" if prefix else name: value for name, value in metrics.items()}
    config = getattr(logger, "_longpole_config", None)

    def declare() -> _Declared:
        directory = _text(_read(config, "log_dir"))
        return {
            "system": "nemo_rl",
            "project": _text(_read(config, "wandb", "project")),
            "name": _text(_read(config, "wandb", "name"))
            or (None if directory is None else Path(directory).name),
        }

    taking.record("nemo_rl", step, named, declare)


# --- AReaL ---------------------------------------------------------------------------------------


def _watch_areal(module: ModuleType) -> None:
    _wrap(module.__dict__["StatsLogger"], "commit", "areal", _record_areal)


def _record_areal(
    logger: Any, epoch: object, step: object, global_step: int, data: object, *_: object
) -> None:
    items = cast("list[Mapping[str, object]]", data if isinstance(data, list) else [data])
    scalars: dict[str, object] = {}
    for item in items:
        for name, value in item.items():
            # The first of several holds the times. Counters say nothing: AReaL drops them too.
            if not name.endswith(_COUNTER_SUFFIX):
                scalars.setdefault(name, value)

    def declare() -> _Declared:
        config = _read(logger, "config")
        return {
            "system": "areal",
            "project": _text(_read(config, "experiment_name")),
            "name": _text(_read(config, "trial_name")),
        }

    # As its console and its files number steps.
    taking.record("areal", global_step + 1, scalars, declare)


# --- SkyRL ---------------------------------------------------------------------------------------


def _watch_skyrl(module: ModuleType) -> None:
    tracking = module.__dict__["Tracking"]
    init = tracking.__init__

    @wraps(init)
    def recorded_init(
        self: Any, project_name: object, experiment_name: object, *args: Any, **kwargs: Any
    ) -> None:
        init(self, project_name, experiment_name, *args, **kwargs)
        self._longpole_names = (project_name, experiment_name)
        # Before the first step: its windows are told while they are open.
        taking.take("skyrl")
        taking.guard(taking.open_session, lambda: _declare_skyrl(self))

    tracking.__init__ = recorded_init
    _wrap(tracking, "log", "skyrl", _record_skyrl)


def _declare_skyrl(tracking: Any) -> _Declared:
    project, name = getattr(tracking, "_longpole_names", (None, None))
    return {"system": "skyrl", "project": _text(project), "name": _text(name)}


def _record_skyrl(
    tracking: Any, data: Mapping[str, object], step: int, *_: object, **__: object
) -> None:
    taking.record("skyrl", step, data, lambda: _declare_skyrl(tracking))


# --- ROLL ----------------------------------------------------------------------------------------


def _watch_roll(module: ModuleType) -> None:
    create = module.__dict__["create_tracker"]

    @wraps(create)
    def recorded_create(tracker_name: Any, config: Any, **kwargs: Any) -> Any:
        tracker = create(tracker_name, config, **kwargs)
        taking.guard(_watch_tracker, tracker, config)
        return tracker

    module.__dict__["create_tracker"] = recorded_create


def _watch_tracker(tracker: Any, config: object) -> None:
    names = {"system": "roll", "name": _text(_read(config, "exp_name"))}

    def record(values: Mapping[str, object], step: int, **_: object) -> None:
        # What is behind the sign is how the framework sums up, no part of the name.
        named = {name.rpartition("@")[0] or name: value for name, value in values.items()}
        seconds = named.get(_ROLL_PREVIOUS)
        if _ROLL_OWN_BESIDE not in named and isinstance(seconds, int | float) and seconds > 0:
            taking.record("roll", step - 1, {STEP_SECONDS: seconds}, lambda: names)
        taking.record("roll", step, named, lambda: names)

    _wrap(tracker, "log", "roll", record)


# --- prime-rl ------------------------------------------------------------------------------------


def _watch_prime_rl(module: ModuleType) -> None:
    _wrap(module, "log", "prime_rl", _record_prime_rl)


def _watch_prime_rl_before(module: ModuleType) -> None:
    """Watch the monitor of the versions until August 2026, which is an object."""
    setup = module.__dict__["setup_monitor"]

    @wraps(setup)
    def recorded_setup(*args: Any, **kwargs: Any) -> Any:
        monitor = setup(*args, **kwargs)
        taking.guard(_wrap, monitor, "log", "prime_rl", _record_prime_rl)
        return monitor

    module.__dict__["setup_monitor"] = recorded_setup


def _record_prime_rl(data: object, step: int, *_: object, **__: object) -> None:
    # Episodes come the same way.
    if not isinstance(data, Mapping):
        return
    scalars = dict(cast("Mapping[str, object]", data))
    is_trainer = _TRAINER in sys.modules
    if _ORCHESTRATOR in sys.modules and not is_trainer:
        scalars = {_ORCHESTRATOR_NAMES.get(name, name): value for name, value in scalars.items()}
        start, end = _EFFECTIVE_REWARD
        rewards = [
            value
            for name, value in scalars.items()
            if name.startswith(start) and name.endswith(end)
        ]
        # Several agents have a reward each: there is no mean of the step.
        if len(rewards) == 1:
            scalars.setdefault("reward_mean", rewards[0])

    def declare() -> _Declared:
        name = os.environ.get("PRL_RUN_NAME") or os.environ.get("PRL_RUN_ID")
        return {
            "system": "prime_rl",
            "project": "prime_rl",
            "name": name,
            # The trainer's clock is the run's; its own ranks follow rank 0.
            "role": None if is_trainer else "rollout",
        }

    taking.record("prime_rl", step, scalars, declare)


WATCHED: Mapping[str, Callable[[ModuleType], None]] = {
    "slime.observability.logging_utils": _watch_slime,
    "slime.utils.logging_utils": _watch_slime,
    "slime.utils.tracking_utils": _watch_slime,
    "miles.utils.tracking_utils": _watch_slime,
    "openrlhf.trainer.ppo_trainer": _watch_openrlhf,
    "nemo_rl.utils.logger": _watch_nemo_rl,
    "areal.utils.stats_logger": _watch_areal,
    "skyrl.train.utils.tracking": _watch_skyrl,
    "skyrl_train.utils.tracking": _watch_skyrl,
    "skyrl.train.utils.utils": skyrl_timers.watch_timers,
    "skyrl_train.utils.utils": skyrl_timers.watch_timers,
    "roll.utils.tracking": _watch_roll,
    "prime_rl.monitors": _watch_prime_rl,
    "prime_rl.utils.monitor": _watch_prime_rl_before,
}
