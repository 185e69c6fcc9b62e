"""Keeps the nodes' GPU files in step with what the trainer does."""

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence

from longpole_sim.cluster import Cluster, Gpu
from longpole_sim.gpu_file import GpuFile
from longpole_sim.gpu_timeline import GpuTimeline

# Agents sample every second; counters are averages over the time since the last look.
_INTERVAL_SECONDS = 0.25


class Painter:
    """A thread that writes each node's levels, averaged since it last wrote.

    Args:
        cluster: The nodes and GPUs.
        files: One per node, in order.
        pids: The process that holds each GPU's memory.
    """

    def __init__(self, cluster: Cluster, files: Sequence[GpuFile], pids: Mapping[Gpu, int]) -> None:
        self._cluster = cluster
        self._files = files
        self._pids = pids
        self._lock = threading.Lock()
        self._shown: tuple[GpuTimeline, float] | None = None
        self._painted_s = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-painter", daemon=True)
        self._thread.start()

    def show(self, timeline: GpuTimeline) -> None:
        """Show a timeline whose second 0 is now."""
        with self._lock:
            self._shown = (timeline, time.monotonic())

    def close(self) -> None:
        """End the thread; the files stay as they are."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_INTERVAL_SECONDS):
            with self._lock:
                shown = self._shown
            if shown is not None:
                # A full disk costs some samples, not the run.
                with contextlib.suppress(OSError):
                    self._paint(*shown)

    def _paint(self, timeline: GpuTimeline, origin_s: float) -> None:
        now_s = time.monotonic()
        # What was before this timeline began is gone: a step starts with a short idle moment.
        from_s = max(0.0, self._painted_s - origin_s)
        to_s = max(from_s, now_s - origin_s)
        stage = timeline.stage_at(to_s)
        for node, file in enumerate(self._files):
            gpus = [Gpu(node, index) for index in range(self._cluster.gpus_per_node)]
            shown = [gpu for gpu in gpus if gpu not in timeline.lost]
            levels = {gpu.index: timeline.mean_levels(gpu, from_s, to_s) for gpu in shown}
            pids = {gpu.index: self._pids[gpu] for gpu in shown if gpu in self._pids}
            file.write(now_s, stage, levels, pids)
        self._painted_s = now_s
