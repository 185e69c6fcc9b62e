"""SkyRL's timers: windows of steps and stages, where its log and its phase gauge say less.

`with Timer("generate", self.all_timings)` stands in the trainer's methods, whose object holds the
number of the step.
"""

import inspect
from contextlib import AbstractContextManager
from functools import wraps
from types import FrameType, ModuleType
from typing import Any

import longpole
from longpole.hooks import taking
from longpole.recording import is_recording

_STEP = "step"
_WINDOW = "_longpole_window"
# Timers that hold others: what is in them is told by name.
_CONTAINERS = frozenset({"run_training", "train_critic_and_policy"})


def watch_timers(module: ModuleType) -> None:
    """Open a window with each timer that is logged, and close it with it."""
    timer: Any = module.__dict__["Timer"]
    for enter, leave in (("__enter__", "__exit__"), ("__aenter__", "__aexit__")):
        if enter in vars(timer):
            _wrap(timer, enter, leave, is_async=enter == "__aenter__")


def _wrap(timer: Any, enter: str, leave: str, *, is_async: bool) -> None:
    entered, left = getattr(timer, enter), getattr(timer, leave)
    if is_async:

        @wraps(entered)
        async def recorded_aenter(self: Any) -> Any:
            taking.guard(_open, self, inspect.currentframe())
            return await entered(self)

        @wraps(left)
        async def recorded_aexit(self: Any, *error: Any) -> Any:
            answer = await left(self, *error)
            taking.guard(_close, self, *error)
            return answer

        setattr(timer, enter, recorded_aenter)
        setattr(timer, leave, recorded_aexit)
        return

    @wraps(entered)
    def recorded_enter(self: Any) -> Any:
        taking.guard(_open, self, inspect.currentframe())
        return entered(self)

    @wraps(left)
    def recorded_exit(self: Any, *error: Any) -> Any:
        answer = left(self, *error)
        taking.guard(_close, self, *error)
        return answer

    setattr(timer, enter, recorded_enter)
    setattr(timer, leave, recorded_exit)


def _open(timer: Any, frame: FrameType | None) -> None:
    # What is not logged is no part of the step: loading, dumps of batches.
    if timer.update_dict is None or timer.message in _CONTAINERS:
        return
    if not taking.is_free_for("skyrl") or not is_recording():
        return
    window = _find_window(timer.message, frame)
    if window is not None:
        window.__enter__()
        setattr(timer, _WINDOW, window)


def _find_window(name: str, frame: FrameType | None) -> AbstractContextManager[object] | None:
    if name != _STEP:
        return longpole.stage(name)
    # The trainer's method lies a few frames up: context managers of its own may be between.
    for _ in range(8):
        frame = None if frame is None else frame.f_back
        trainer = None if frame is None else frame.f_locals.get("self")
        step = getattr(trainer, "global_step", None)
        if isinstance(step, int):
            return longpole.step(step)
    return None


def _close(timer: Any, *error: Any) -> None:
    window = timer.__dict__.pop(_WINDOW, None)
    if window is not None:
        window.__exit__(*(error or (None, None, None)))
