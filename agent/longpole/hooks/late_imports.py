"""Does something to a module right after it is imported, before anyone else has seen it.

Nothing is imported ahead of time: frameworks import theirs in orders of their own.
"""

import importlib.abc
import importlib.machinery
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType

_log = logging.getLogger(__name__)

Action = Callable[[ModuleType], None]


class LateImports(importlib.abc.MetaPathFinder):
    """Watches for modules by name. Whatever an action raises is logged once and goes no further.

    Args:
        owner: Named in the log line.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._actions: dict[str, Action] = {}
        self._finding = threading.local()

    def watch(self, name: str, action: Action) -> None:
        """Call an action with a module when it is imported, now if it was."""
        module = sys.modules.get(name)
        if module is not None and not getattr(module.__spec__, "_initializing", False):
            self._act(name, action, module)
        else:
            self._actions[name] = action

    def install(self) -> None:
        """Begin to watch."""
        if self._actions and self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec others find, with the action behind its execution."""
        action = self._actions.get(fullname)
        if action is None or getattr(self._finding, "is_on", False):
            return None
        self._finding.is_on = True
        try:
            spec = _find_elsewhere(self, fullname, path)
        finally:
            self._finding.is_on = False
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_then_act(module: ModuleType) -> None:
            execute(module)
            self._actions.pop(fullname, None)
            self._act(fullname, action, module)

        try:
            spec.loader.exec_module = execute_then_act  # type: ignore[method-assign] - of this one loader
        except AttributeError:
            return None
        return spec

    def _act(self, name: str, action: Action, module: ModuleType) -> None:
        try:
            action(module)
        except Exception as error:  # noqa: BLE001 - a framework must not see any failure of ours
            _log.warning("longpole: %s does not know this %s: %r", self._owner, name, error)


def _find_elsewhere(
    watcher: LateImports, fullname: str, path: Sequence[str] | None
) -> importlib.machinery.ModuleSpec | None:
    for finder in list(sys.meta_path):
        find_spec = getattr(finder, "find_spec", None)
        if finder is watcher or find_spec is None:
            continue
        spec = find_spec(fullname, path, None)
        if spec is not None:
            return spec
    return None
