"""Which run holds which GPU: joined anew every few seconds, written when something changed.

An attempt holds its GPUs until it ends; one that was superseded, until then.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from longpole_server.analysis.join import GpuIdentity, RunWindow, join_gpus
from longpole_server.model.gpu import GpuNow, RunGpu
from longpole_server.read import AttemptRow, Reader
from longpole_server.service.revisions import Revisions
from longpole_server.service.run_states import end_superseded
from longpole_server.service.serial_writer import SerialWriter

_logger = logging.getLogger(__name__)

_EVERY_S = 4.0
# Runs and GPUs heard from this recently are joined; older ones keep what was written.
_RECENT_NS = 600 * 10**9
# An attempt that was silent this long is over, as far as its GPUs are concerned.
_ALIVE_NS = 120 * 10**9


class GpuJoiner:
    """Joins GPUs to runs in its own thread, which never ends by itself.

    Args:
        reader: Reads processes, GPUs and attempts.
        writer: Takes what was joined.
        revisions: Bumped for the runs whose GPUs changed.
        on_joined: Told of these runs after that.
        now_ns: Wall clock, UTC nanoseconds.
    """

    def __init__(
        self,
        reader: Reader,
        writer: SerialWriter,
        revisions: Revisions,
        on_joined: Callable[[str], None],
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._revisions = revisions
        self._on_joined = on_joined
        self._now_ns = now_ns
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._written: dict[str, frozenset[RunGpu]] = {}
        self.num_failed = 0

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="gpu-joining", daemon=True)
        self._thread.start()

    def close(self, timeout_s: float = 2.0) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
            self._thread = None

    def join(self) -> bool:
        """Join once; tell whether anything changed.

        Raises:
            StoreError: The database failed.
        """
        now_ns = self._now_ns()
        since_ns = now_ns - _RECENT_NS
        gpus = self._reader.list_gpus(since_ns)
        rows = [
            row
            for row in end_superseded(self._reader.list_attempts())
            if row.last_seen_ns >= since_ns and not row.start.imported
        ]
        if not gpus or not rows:
            return False
        joined = join_gpus(
            [
                process
                for run_id in dict.fromkeys(row.start.run_id for row in rows)
                for process in self._reader.list_processes(run_id)
            ],
            self._reader.list_gpu_processes(since_ns),
            [_identify(gpu) for gpu in gpus],
            [_window(row, now_ns) for row in rows],
        )
        return self._write(joined)

    def _write(self, joined: Sequence[RunGpu]) -> bool:
        changed = False
        for run_id in dict.fromkeys(gpu.run_id for gpu in joined):
            held = frozenset(gpu for gpu in joined if gpu.run_id == run_id)
            if held != self._written.get(run_id):
                self._writer.write_run_gpus(sorted(held, key=lambda gpu: gpu.gpu_uuid))
                self._written[run_id] = held
                self._revisions.bump(run_id)
                self._on_joined(run_id)
                changed = True
        return changed

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_S):
            self._try_join()

    def _try_join(self) -> None:
        try:
            self.join()
        except Exception:
            self.num_failed += 1
            _logger.exception("GPUs are joined to runs later")


def _identify(gpu: GpuNow) -> GpuIdentity:
    return GpuIdentity(gpu.host, gpu.gpu_uuid, gpu.gpu_index, gpu.model)


def _window(row: AttemptRow, now_ns: int) -> RunWindow:
    until_ns = row.end.ended_ns if row.end is not None else None
    if until_ns is None and now_ns - row.last_seen_ns > _ALIVE_NS:
        until_ns = row.last_seen_ns
    return RunWindow(row.start.run_id, row.start.attempt, row.start.started_ns, until_ns)
