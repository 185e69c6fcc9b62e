"""The life of the process: its session, its forks, and its end."""

import atexit
import os
import sys
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from longpole.complaints import Complaints
from longpole.declaration import Declaration
from longpole.ranks import read_rank
from longpole.stats import Stats

if TYPE_CHECKING:
    from longpole.session import Session
    from longpole.settings import Settings

FINISHED, CRASHED = "finished", "crashed"
_EXIT_TIMEOUT_S = 5.0
_ExceptHook = Callable[[type[BaseException], BaseException, "TracebackType | None"], object]


class Process:
    """Holds the session, and minds forks and the end of the process."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.complaints = Complaints()
        self._lock = threading.Lock()
        # What a forked child opens its own session with, when it first records something.
        self._origin: tuple[Declaration, Settings] | None = None
        self._speaks_for_run = False
        self._is_over = False
        self._is_crashed = False
        self._is_hooked = False
        self._last_session: Session | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a session, or a forked child may open its own."""
        return self.session is not None or (self._origin is not None and not self._is_over)

    def open(
        self,
        declaration: Declaration,
        config: Mapping[str, object],
        endpoint: str | None,
        token: str | None,
    ) -> None:
        """Open and start the session; complains when there is one."""
        with self._lock:
            if self.session is not None:
                self.complaints.report(
                    "init_twice", "init() was called before; call shutdown() to begin anew"
                )
                return
            # Imported here: a process that never calls init() pays nothing for OpenTelemetry.
            from longpole.session import open_session
            from longpole.settings import read_settings

            environ = dict(os.environ)
            settings = read_settings(endpoint, token, environ)
            declaration = declaration.of_rank(read_rank(environ))
            session = open_session(declaration, settings, environ, self.complaints)
            if declaration.is_controller:
                session.announce_run(config)
            session.start()
            self._origin = declaration, settings
            self._speaks_for_run = declaration.is_controller
            self._is_over = self._is_crashed = False
            self._hook_exit()
            self.session = session

    def resume(self, call: str) -> "Session | None":
        """Return the session, opening one in a forked child; None when there is none to be."""
        session = self.session
        if session is not None or self._is_over:
            return session
        if self._origin is None:
            self.complaints.report(
                "before_init", "%s() before init() does nothing; call longpole.init() first", call
            )
            return None
        try:
            return self._open_in_child()
        except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
            self._is_over = True
            self.complaints.report("internal", "could not go on after fork: %r", error)
            return None

    def close(self, status: str | None, timeout_s: float) -> bool:
        """Close the session; returns whether everything was accepted.

        Args:
            status: How the run ended; None to judge by the exception that is being handled.
            timeout_s: Bound of the call.
        """
        if status is None:
            failed = (
                self._is_crashed or is_failure(sys.exc_info()[1]) or self._is_exiting_with_status()
            )
            status = CRASHED if failed else FINISHED
        with self._lock:
            session, self.session = self.session, None
            self._is_over = self._is_over or session is not None
        if session is None:
            return True
        self._last_session = session
        return session.close(status if self._speaks_for_run else None, timeout_s)

    def count(self) -> Stats:
        """Return the counts of the open or else the last session."""
        session = self.session or self._last_session
        return Stats(misused=self.complaints.count()) if session is None else session.count()

    def _open_in_child(self) -> "Session | None":
        with self._lock:
            if self.session is None and not self._is_over and self._origin is not None:
                from longpole.session import open_session

                declaration, settings = self._origin
                session = open_session(
                    declaration.of_child(), settings, dict(os.environ), self.complaints
                )
                session.start()
                self._close_with_multiprocessing()
                self.session = session
            return self.session

    def _hook_exit(self) -> None:
        self._close_with_multiprocessing()
        if self._is_hooked:
            return
        self._is_hooked = True
        atexit.register(self._close_at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget_parent)
        self._chain_excepthook(sys.excepthook)

    def _chain_excepthook(self, previous: _ExceptHook) -> None:
        def note_crash(
            kind: type[BaseException], error: BaseException, traceback: TracebackType | None
        ) -> None:
            self._is_crashed = is_failure(error)
            previous(kind, error, traceback)

        sys.excepthook = note_crash

    def _is_exiting_with_status(self) -> bool:
        """Tell whether `sys.exit(1)` or the like left the last window: no hook sees an exit."""
        error = None if self.session is None else self.session.windows.leaving_error
        return isinstance(error, SystemExit) and is_failure(error)

    def _close_at_exit(self) -> None:
        self.close(None, _EXIT_TIMEOUT_S)

    def _close_with_multiprocessing(self) -> None:
        """Children of `multiprocessing` leave by `os._exit`, past `atexit`."""
        multiprocessing = sys.modules.get("multiprocessing")
        if multiprocessing is None or multiprocessing.parent_process() is None:
            return
        from multiprocessing.util import Finalize

        # An exception that ends the child is still being handled when its finalizers run.
        Finalize(None, self._close_at_exit, exitpriority=0)

    def _forget_parent(self) -> None:
        """In a forked child: what is buffered is the parent's, and its thread is not here."""
        self._lock = threading.Lock()
        self.complaints = Complaints()
        self._last_session = None
        session, self.session = self.session, None
        self._speaks_for_run = False
        self._is_crashed = False
        if session is not None:
            session.abandon()


def is_failure(error: BaseException | None) -> bool:
    """Tell whether a run that ends with `error` crashed.

    Ctrl-C, an exit with status 0 and the closing of a generator are somebody's wish.
    """
    if isinstance(error, SystemExit):
        return error.code not in (None, 0)
    return error is not None and not isinstance(error, KeyboardInterrupt | GeneratorExit)
