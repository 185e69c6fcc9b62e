"""Scalars of any trainer, from its logger: wandb, TensorBoard, MLflow, swanlab or trackio.

What is wrapped is each library's class, so that it does not matter in which order a program imports
and how it calls them. The library does its own work first; ours never raises.
"""

import logging
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from longpole.hooks import taking
from longpole.hooks.late_imports import LateImports

_log = logging.getLogger(__name__)

# open-instruct's own count, trusted more than its calls: these count episodes.
_OWN_STEP = "training_step"
# Metrics that name the step where the call does not, in the order they are trusted.
_STEP_KEYS = ("trainer/global_step", "train/global_step", "global_step", "training/global_step")
# Where loggers keep the names of project and run: wandb and trackio, swanlab now, swanlab before.
_PROJECT = (("project",), ("_ctx", "config", "settings", "project", "name"))
_PROJECT_BEFORE = (("public", "project_name"),)
_NAME = (("name",), ("public", "experiment_name"))
# Where writers of TensorBoard keep their folder.
_FOLDERS = ("log_dir", "logdir")

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
    _wrap(module, "Run", "log", _log_mapping)


def _log_mapping(
    run: object, count: object, data: object = None, step: object = None, *_: object, **__: object
) -> None:
    if isinstance(data, Mapping):
        _record(run, cast("Mapping[str, object]", data), step, count)


def _watch_tensorboard(module: ModuleType) -> None:
    _wrap_add_scalar(module.__dict__["SummaryWriter"])
    _wrap(module, "SummaryWriter", "add_scalars", _log_tensorboard_group)


def _wrap_add_scalar(writer: Any) -> None:
    """Let a writer's values be recorded by a short way: it is called for each of them."""
    original = writer.add_scalar

    @wraps(original)
    def recorded(
        self: Any, tag: Any, scalar_value: Any, global_step: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        answer = original(self, tag, scalar_value, global_step, *args, **kwargs)
        try:
            if not taking.record_value(global_step, tag, scalar_value):
                _record(self, {str(tag): scalar_value}, global_step)
        except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
            _log.debug("longpole: %r", error)
        return answer

    writer.add_scalar = recorded


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
    _record(_MlflowRun(client, run_id), {str(key): value}, step)


def _log_mlflow_batch(
    client: object, _count: object, run_id: object, metrics: Any = (), *_: object, **__: object
) -> None:
    by_step: dict[object, dict[str, object]] = {}
    for metric in metrics or ():
        by_step.setdefault(metric.step, {})[metric.key] = metric.value
    for step, scalars in by_step.items():
        _record(_MlflowRun(client, run_id), scalars, step)


class _MlflowRun:
    """The names of a run, which MLflow's client asks its server for: once, for the first record."""

    def __init__(self, client: Any, run_id: object) -> None:
        self._client = client
        self._run_id = run_id

    @property
    def name(self) -> object:
        return self._client.get_run(self._run_id).info.run_name

    @property
    def project(self) -> object:
        experiment_id = self._client.get_run(self._run_id).info.experiment_id
        return self._client.get_experiment(experiment_id).name


def _watch_swanlab(module: ModuleType) -> None:
    owner = "SwanLabRun" if hasattr(module, "SwanLabRun") else "Run"
    _wrap(module, owner, "log", _log_mapping)


def _watch_trackio(module: ModuleType) -> None:
    _wrap(module, "Run", "log", _log_trackio, count="_next_step")


def _log_trackio(
    run: object, count: object, metrics: object, step: object = None, *_: object, **__: object
) -> None:
    _log_mapping(run, count, metrics, step)


def _record(logger: object, scalars: Mapping[str, object], *steps: object) -> None:
    """Record scalars under the first step that is known; without one nobody could place them."""
    named = next((scalars[key] for key in _STEP_KEYS if key in scalars), None)
    first, *others = steps
    for step in (scalars.get(_OWN_STEP), first, named, *others):
        if isinstance(step, int | float) and not isinstance(step, bool):
            taking.record("", int(step), scalars, lambda: _declare(logger))
            return


def _declare(logger: object) -> Mapping[str, Any]:
    folder = _read_text(logger, *((name,) for name in _FOLDERS))
    if folder is not None:
        # As verl and others name it: `.../project/run`.
        path = Path(folder).absolute()
        return {"project": path.parent.name or None, "name": path.name or None}
    return {
        "project": _read_text(logger, *_PROJECT, *_PROJECT_BEFORE),
        "name": _read_text(logger, *_NAME),
    }


def _read_text(logger: object, *paths: tuple[str, ...]) -> str | None:
    """Return the first text that lies under one of several paths."""
    for path in paths:
        value: Any = logger
        try:
            for name in path:
                value = getattr(value, name, None)
        except Exception:  # noqa: BLE001, S112 - a foreign property may raise anything
            continue
        if isinstance(value, str) and value:
            return value
    return None


def _wrap(
    module: ModuleType,
    owner: str,
    method: str,
    record: Callable[..., None],
    count: str = "step",
) -> None:
    """Let a method's calls be recorded after it did its work.

    Args:
        module: Where its class is.
        owner: The class.
        method: The method.
        record: Takes the logger, its count, and the method's arguments.
        count: What the logger calls its own count.
    """
    kind: Any = module.__dict__[owner]
    original = getattr(kind, method, None)
    if original is None:
        return

    @wraps(original)
    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        # The logger's own count, before this call moves it on.
        before = getattr(self, count, None)
        answer = original(self, *args, **kwargs)
        try:
            record(self, before, *args, **kwargs)
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
    "trackio.run": _watch_trackio,
}
