"""Who speaks for this process: one hook, so that nothing is recorded twice.

Frameworks hand what they log to loggers that are watched too. The hook that knows the framework's
own step takes the process over; the loggers' hooks are silent from then on.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import longpole
from longpole.recording import is_recording, log_value

_log = logging.getLogger(__name__)


class _State:
    """Of this process."""

    taken_by = ""
    opens = False


def open_by_itself() -> None:
    """Let the first record open the session: nobody calls `longpole.init` in this process."""
    _State.opens = True


def take(owner: str) -> None:
    """Speak for this process from now on. Who came first keeps it."""
    _State.taken_by = _State.taken_by or owner


def is_free_for(owner: str) -> bool:
    """Tell whether an owner may record."""
    return _State.taken_by in {"", owner}


def record(
    owner: str, step: int, scalars: Mapping[str, object], declare: Callable[[], Mapping[str, Any]]
) -> None:
    """Record scalars of a step, unless another hook speaks for this process.

    Args:
        owner: The hook; "" for the loggers', which take nothing over.
        step: The step.
        scalars: Names and values; None and what is no number is left out by the SDK.
        declare: Says what `longpole.init` is to be told where this opens the session.
    """
    if not is_free_for(owner):
        return
    if owner:
        take(owner)
    open_session(declare)
    if is_recording():
        longpole.log(step, scalars)


def record_value(step: object, name: object, value: object) -> bool:
    """Record one value that a logger is told, where nothing is to be found out or opened.

    Returns:
        Whether nothing is left to do.
    """
    if _State.taken_by:
        return True
    return type(step) is int and type(name) is str and log_value(step, name, value)


def open_session(declare: Callable[[], Mapping[str, Any]]) -> None:
    """Open the session if that is asked for and it is not open."""
    if not _State.opens or is_recording():
        return
    longpole.init(**{name: value for name, value in declare().items() if value is not None})


def guard(call: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """Call something of ours: the trainer must not see any failure of it."""
    try:
        call(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
        _log.debug("longpole: %r", error)
