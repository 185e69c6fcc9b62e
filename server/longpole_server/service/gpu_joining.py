"""Which run holds which GPU: joined anew every few seconds, written when something changed.

An attempt holds its GPUs until it ends; one that was superseded, until then. What a better source
corrects is taken back; what nothing tells any more is held until then.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from longpole_server.analysis.gpu_evidence import Evidence, GpuIdentity, RunWindow
from longpole_server.analysis.join import JoinNote, join_gpus
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

# An attempt and what it holds: GPU and when it took it.
_Key = tuple[int, str, int]


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
        self._written: dict[str, Mapping[_Key, RunGpu]] = {}
        self._notes: Mapping[str, tuple[str, ...]] = {}
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

    def list_notes(self, run_id: str) -> Sequence[str]:
        """Return why GPUs of a run's nodes were not joined to it, for people."""
        return self._notes.get(run_id, ())

    @property
    def notes(self) -> Mapping[str, Sequence[str]]:
        """All of these by run."""
        return self._notes

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
        windows = [_window(row, now_ns) for row in rows]
        run_ids = tuple(dict.fromkeys(window.run_id for window in windows))
        evidence = Evidence(
            self._reader.list_gpu_holders(since_ns),
            self._reader.list_gpu_grants(since_ns),
            [_identify(gpu) for gpu in gpus],
        )
        processes = [each for run_id in run_ids for each in self._reader.list_processes(run_id)]
        join = join_gpus(processes, evidence, windows)
        self._note(join.notes)
        held: defaultdict[str, list[RunGpu]] = defaultdict(list)
        for run_gpu in join.held:
            held[run_gpu.run_id].append(run_gpu)
        attempts = {(window.run_id, window.attempt) for window in windows}
        known = {gpu.gpu_uuid for gpu in gpus}
        changed = [self._write(run_id, held[run_id], attempts, known, now_ns) for run_id in run_ids]
        return any(changed)

    def _write(
        self,
        run_id: str,
        held: Sequence[RunGpu],
        attempts: Collection[tuple[str, int]],
        known: Collection[str],
        now_ns: int,
    ) -> bool:
        """Write what changed of a run; tell whether anything did.

        Args:
            run_id: The run.
            held: What it holds.
            attempts: Those that were joined; what others hold stays.
            known: GPUs that were joined; what is held of others stays.
            now_ns: Until when is held what nothing tells any more.
        """
        written = self._written.get(run_id)
        if written is None:
            written = _by_key(self._reader.list_run_gpus(run_id))
        doubtful = [
            row
            for row in written.values()
            if (run_id, row.attempt) in attempts and row.gpu_uuid in known
        ]
        amended = amend(doubtful, held, now_ns)
        news = [row for row in amended if row != written.get(_key_of(row))]
        if news:
            self._writer.write_run_gpus(sorted(news, key=lambda row: row.gpu_uuid))
            self._revisions.bump(run_id)
            self._on_joined(run_id)
        self._written[run_id] = {**written, **_by_key(amended)}
        return bool(news)

    def _note(self, notes: Iterable[JoinNote]) -> None:
        by_run: defaultdict[str, list[str]] = defaultdict(list)
        for note in notes:
            by_run[note.run_id].append(f"GPUs of {note.host} are not joined by {note.text}.")
        for run_id, texts in by_run.items():
            for text in texts:
                if text not in self._notes.get(run_id, ()):
                    _logger.warning("run %s: %s", run_id, text)
        self._notes = {run_id: tuple(dict.fromkeys(texts)) for run_id, texts in by_run.items()}

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_S):
            self._try_join()

    def _try_join(self) -> None:
        try:
            self.join()
        except Exception:
            self.num_failed += 1
            _logger.exception("GPUs are joined to runs later")


def amend(before: Iterable[RunGpu], held: Sequence[RunGpu], now_ns: int) -> list[RunGpu]:
    """Return rows that say what is held, and correct what was said before.

    A row whose attempt holds other GPUs of that node was wrong from its beginning: it ends before
    that. One whose attempt holds nothing there any more was right as long as nobody else came.

    Args:
        before: What was said.
        held: What is held.
        now_ns: Until when is held what nothing tells any more.
    """
    keys = {_key_of(row) for row in held}
    answered = {(row.attempt, row.host) for row in held}
    amended = list(held)
    for row in before:
        if _key_of(row) in keys:
            continue
        if (row.attempt, row.host) in answered:
            amended.append(replace(row, until_ns=row.since_ns - 1))
        elif row.until_ns is None or row.until_ns > now_ns:
            amended.append(replace(row, until_ns=max(now_ns, row.since_ns)))
    return amended


def _key_of(row: RunGpu) -> _Key:
    return row.attempt, row.gpu_uuid, row.since_ns


def _by_key(rows: Iterable[RunGpu]) -> dict[_Key, RunGpu]:
    return {_key_of(row): row for row in rows}


def _identify(gpu: GpuNow) -> GpuIdentity:
    return GpuIdentity(gpu.host, gpu.gpu_uuid, gpu.gpu_index, gpu.model, gpu.parent_uuid)


def _window(row: AttemptRow, now_ns: int) -> RunWindow:
    until_ns = row.end.ended_ns if row.end is not None else None
    if until_ns is None and now_ns - row.last_seen_ns > _ALIVE_NS:
        until_ns = row.last_seen_ns
    return RunWindow(row.start.run_id, row.start.attempt, row.start.started_ns, until_ns)
