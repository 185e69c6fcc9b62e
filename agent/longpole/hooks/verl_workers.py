"""verl's model workers: which process does what on which GPUs, and when.

The controller names the run; these name their Ray job, by which the server finds it.
"""

import logging
from collections.abc import Callable, Mapping
from functools import wraps
from types import ModuleType
from typing import Any

import longpole
from longpole.hooks import verl_settings as settings

_log = logging.getLogger(__name__)

_ROLE_OF_WORKER: Mapping[str, str] = {
    "actor": "trainer",
    "actor_rollout": "hybrid",
    "actor_rollout_ref": "hybrid",
    "rollout": "rollout",
    "ref": "ref",
    "critic": "critic",
    "rm": "reward",
    "reward": "reward",
}


class _State:
    """Whether this process has said what it does."""

    is_open = False


def _watch_profiler(module: ModuleType) -> None:
    profiler: Any = module.__dict__["DistProfiler"]
    annotate = profiler.annotate

    @wraps(annotate)
    def recorded_annotate(*args: Any, **kwargs: Any) -> Callable[..., Any]:
        decorate = annotate(*args, **kwargs)
        name = kwargs.get("role")

        def decorate_recorded(method: Callable[..., Any]) -> Callable[..., Any]:
            inner = decorate(method)
            stage = name if isinstance(name, str) else method.__name__

            @wraps(inner)
            def recorded(self: Any, *inner_args: Any, **inner_kwargs: Any) -> Any:
                if not _open(self):
                    return inner(self, *inner_args, **inner_kwargs)
                with longpole.stage(stage):
                    return inner(self, *inner_args, **inner_kwargs)

            return recorded

        return decorate_recorded

    profiler.annotate = recorded_annotate


def _open(worker: Any) -> bool:
    """Open this process's session at its first stage; tell whether it records."""
    if _State.is_open:
        return True
    try:
        role = find_role(worker)
        if role is None:
            return False
        longpole.init(system="verl", system_version=settings.find_version(), role=role)
        _State.is_open = True
    except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
        _log.debug("longpole: %r", error)
    return _State.is_open


def find_role(worker: object) -> str | None:
    """Return the role of a worker: what it says, else what its class is called."""
    role = getattr(worker, "role", None)
    if isinstance(role, str) and role in _ROLE_OF_WORKER:
        return _ROLE_OF_WORKER[role]
    name = type(worker).__name__.lower()
    for word in ("critic", "reward", "rollout"):
        if word in name:
            return "hybrid" if word == "rollout" and "actor" in name else word
    return "trainer" if "train" in name or "actor" in name else None


WATCHED: Mapping[str, Callable[[ModuleType], None]] = {
    "verl.utils.profiler.profile": _watch_profiler,
}
