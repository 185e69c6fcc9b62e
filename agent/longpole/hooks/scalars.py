"""Scalars of any trainer, from the logger it already calls: wandb, TensorBoard, MLflow, swanlab.

What is wrapped is each library's class, so that it does not matter in which order a program imports
and how it calls them. The library does its own work first; ours never raises.
"""

import logging
from collections.abc import Callable, Mapping
from functools import wraps
from types import ModuleType
from typing import Any, cast

from longpole.hooks import taking
from longpole.hooks.late_imports import LateImports

_log = logging.getLogger(__name__)

# Metrics that name the step where the call does not, in the order they are trusted.
_STEP_KEYS = ("trainer/global_step", "train/global_step", "global_step", "training/global_step")
# What a logger calls its project and its run.
_NAMES = ("project", "name")

_watcher = LateImports("autolog")


class _Stream:
    """Where scalars go; one a process."""

    is_on = False


def watch_loggers() -> None:
    """Record what the loggers are told from now on. Libraries imported later count too."""
    if _Stream.is_on:
        return
    _Stream.is_on = True
    for name, action in _WATCHED.items():
        _watcher.watch(name, action)
    _watcher.install()


def _watch_wandb(module: ModuleType) -> None:
    _wrap(module, "Run", "log", _log_wandb)


def _log_wandb(
    run: object,
    count: object,
    data: object = None,
    step: object = None,
    commit: object = None,
    *_: object,
    **__: object,
) -> None:
    if isinstance(data, Mapping):
        _record(run, cast("Mapping[str, object]", data), step, count)


def _watch_tensorboard(module: ModuleType) -> None:
    _wrap(module, "SummaryWriter", "add_scalar", _log_tensorboard)
    _wrap(module, "SummaryWriter", "add_scalars", _log_tensorboard_group)


def _log_tensorboard(
    writer: object,
    _count: object,
    tag: object,
    scalar_value: object,
    global_step: object = None,
    *_: object,
    **__: object,
) -> None:
    _record(writer, {str(tag): scalar_value}, global_step)


def _log_tensorboard_group(
    writer: object,
    _count: object,
    main_tag: object,
    tag_scalar_dict: object,
    global_step: object = None,
    *_: object,
    **__: object,
) -> None:
    if isinstance(tag_scalar_dict, Mapping):
        scalars = cast("Mapping[str, object]", tag_scalar_dict)
        named = {f"{main_tag}/{tag}": value for tag, value in scalars.items()}
        _record(writer, named, global_step)


def _watch_mlflow(module: ModuleType) -> None:
    _wrap(module, "MlflowClient", "log_metric", _log_mlflow)
    _wrap(module, "MlflowClient", "log_batch", _log_mlflow_batch)


def _log_mlflow(
    client: object,
    _count: object,
    run_id: object,
    key: object,
    value: object,
    timestamp: object = None,
    step: object = None,
    *_: object,
    **__: object,
) -> None:
    _record(client, {str(key): value}, step)


def _log_mlflow_batch(
    client: object, _count: object, run_id: object, metrics: Any = (), *_: object, **__: object
) -> None:
    for metric in metrics or ():
        _record(client, {str(metric.key): metric.value}, getattr(metric, "step", None))


def _watch_swanlab(module: ModuleType) -> None:
    owner = "SwanLabRun" if hasattr(module, "SwanLabRun") else "Run"
    _wrap(module, owner, "log", _log_swanlab)


def _log_swanlab(
    run: object, _count: object, data: object = None, step: object = None, *_: object, **__: object
) -> None:
    if isinstance(data, Mapping):
        _record(run, cast("Mapping[str, object]", data), step)


def _record(logger: object, scalars: Mapping[str, object], *steps: object) -> None:
    """Record scalars under the first step that is known; without one nobody could place them."""
    named = next((scalars[key] for key in _STEP_KEYS if key in scalars), None)
    first, *others = steps
    for step in (first, named, *others):
        if isinstance(step, int | float) and not isinstance(step, bool):
            taking.record("", int(step), scalars, lambda: _declare(logger))
            return


def _declare(logger: object) -> Mapping[str, Any]:
    named = {name: getattr(logger, name, None) for name in _NAMES}
    return {name: value for name, value in named.items() if isinstance(value, str) and value}


def _wrap(module: ModuleType, owner: str, method: str, record: Callable[..., None]) -> None:
    """Let a method's calls be recorded after it did its work."""
    kind: Any = module.__dict__[owner]
    original = getattr(kind, method, None)
    if original is None:
        return

    @wraps(original)
    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        # The logger's own count, before this call moves it on.
        count = getattr(self, "step", None)
        answer = original(self, *args, **kwargs)
        try:
            record(self, count, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
            _log.debug("longpole: %r", error)
        return answer

    setattr(kind, method, recorded)


_WATCHED: Mapping[str, Callable[[ModuleType], None]] = {
    "wandb.sdk.wandb_run": _watch_wandb,
    "torch.utils.tensorboard.writer": _watch_tensorboard,
    "tensorboardX.writer": _watch_tensorboard,
    "mlflow.tracking.client": _watch_mlflow,
    "swanlab.data.run.main": _watch_swanlab,
    "swanlab.sdk.internal.run": _watch_swanlab,
}
