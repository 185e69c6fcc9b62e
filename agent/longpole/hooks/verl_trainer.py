"""verl's controller: the run, its steps and stages, and its scalars."""

import inspect
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import wraps
from types import FrameType, ModuleType, TracebackType
from typing import Any, cast

import longpole
from longpole.hooks import taking
from longpole.hooks import verl_settings as settings

_log = logging.getLogger(__name__)

_STEP = "step"
# Timers of this trainer's step do not go with its numbers: it logs several steps under one.
_OTHER_STEPS = "FullyAsync"
# These are not stages: the profiler's own, and generation for the next step, in the background.
_NO_STAGES = frozenset({"start_profile", "stop_profile", "generate_async"})
_DOUBLED_PREFIX = "timing_s/"


class _State:
    """The run of this process, once `Tracking` has named it."""

    is_open = False


def _watch_timers(module: ModuleType) -> None:
    marked_timer = getattr(module, "marked_timer", None)
    if marked_timer is None:
        raise LookupError("no marked_timer")

    @wraps(marked_timer)
    def recorded_timer(
        name: str, timing_raw: Any, *args: Any, **kwargs: Any
    ) -> AbstractContextManager[None]:
        inner = marked_timer(name, timing_raw, *args, **kwargs)
        if not _State.is_open:
            return inner
        frame = inspect.currentframe()
        window = None if frame is None else _find_window(name, frame.f_back)
        return inner if window is None else _Both(window, inner)

    module.__dict__["marked_timer"] = recorded_timer


class _Both(AbstractContextManager[None]):
    """A window of ours around a timer of verl's. What the timer raises passes."""

    def __init__(
        self, window: AbstractContextManager[object], timer: AbstractContextManager[None]
    ) -> None:
        self._window = window
        self._timer = timer
        self._stack = ExitStack()

    def __enter__(self) -> None:
        with ExitStack() as stack:
            stack.enter_context(self._window)
            stack.enter_context(self._timer)
            self._stack = stack.pop_all()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return self._stack.__exit__(kind, error, traceback)


def _find_window(name: object, caller: FrameType | None) -> AbstractContextManager[object] | None:
    if not isinstance(name, str) or name in _NO_STAGES or caller is None:
        return None
    trainer = caller.f_locals.get("self")
    if _OTHER_STEPS in type(trainer).__name__:
        return None
    if name != _STEP:
        return longpole.stage(name.removeprefix(_DOUBLED_PREFIX))
    iteration = getattr(trainer, "global_steps", None)
    return longpole.step(iteration) if isinstance(iteration, int) else None


def _watch_tracking(module: ModuleType) -> None:
    tracking: Any = module.__dict__["Tracking"]
    init, log = tracking.__init__, tracking.log
    finish = getattr(tracking, "finish", None)

    @wraps(init)
    def recorded_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        _guard(_open_run, *args, **kwargs)

    @wraps(log)
    def recorded_log(self: Any, data: Any, step: Any, *args: Any, **kwargs: Any) -> Any:
        answer = log(self, data, step, *args, **kwargs)
        _guard(_log_scalars, data, step)
        return answer

    tracking.__init__, tracking.log = recorded_init, recorded_log
    if finish is not None:

        @wraps(finish)
        def recorded_finish(self: Any, *args: Any, **kwargs: Any) -> Any:
            is_first = not getattr(self, "_finished", False)
            answer = finish(self, *args, **kwargs)
            if is_first:
                _guard(_close_run, *args, **kwargs)
            return answer

        tracking.finish = recorded_finish


def _open_run(
    project_name: object,
    experiment_name: object,
    default_backend: object = None,
    config: object = None,
    **_: object,
) -> None:
    if _State.is_open:
        return
    taking.take("verl")
    model_name, model_config = settings.describe_model(config)
    algorithm = settings.read(config, "algorithm.adv_estimator")
    longpole.init(
        project=str(project_name),
        name=str(experiment_name),
        system="verl",
        system_version=settings.find_version(),
        algorithm=None if algorithm is None else str(algorithm),
        mode=settings.find_mode(config),
        role="controller",
        gpu_count=settings.count_gpus(config),
        model_name=model_name,
        model_config=model_config,
        config=settings.read_settings(config),
    )
    _State.is_open = True


def _log_scalars(data: object, step: object) -> None:
    if _State.is_open and isinstance(data, Mapping) and isinstance(step, int):
        longpole.log(step, cast("Mapping[str, object]", data))


def _close_run(exit_code: object = 0) -> None:
    if not _State.is_open:
        return
    _State.is_open = False
    longpole.shutdown("finished" if exit_code == 0 else "crashed")


def _guard(call: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    try:
        call(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
        _log.debug("longpole: %r", error)


WATCHED: Mapping[str, Callable[[ModuleType], None]] = {
    "verl.utils.profiler": _watch_timers,
    "verl.utils.tracking": _watch_tracking,
}
