"""A step as a trace in Chrome's format, which Perfetto opens: stages, samples, GPU counters.

Format: the JSON object form of "Trace Event Format" - complete events (`X`) with microseconds in
`ts` and `dur`, counters (`C`), and metadata (`M`) that names processes and threads.
"""

import heapq
import math
from collections.abc import Iterable, Sequence
from typing import Any

from longpole_server.errors import NotFoundError
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.trajectory import Trajectory
from longpole_server.service.interface import Service, StepDetail

_LOOP, _SAMPLES, _GPUS, _FIRST_OTHER = 1, 2, 3, 10
_STAGES = 1
_GPU_FIELDS = ("utilization_ratio", "power_watts", "memory_used_bytes")
_MAX_BINS = 600
_MAX_SAMPLES = 10_000

Event = dict[str, Any]


def trace_step(service: Service, run_id: str, step: int) -> dict[str, Any]:
    """Return the trace of a closed or open step.

    Raises:
        NotFoundError: There is no such run or step, or no window of it has a time.
        StoreError: The database failed.
    """
    detail = service.get_step(run_id, step)
    start_ns, end_ns = detail.step.start_ns, detail.step.end_ns
    if end_ns is None:
        end_ns = max((window[1] for stage in detail.step.stages for window in stage.windows),
                     default=start_ns)  # fmt: skip
    if end_ns <= start_ns:
        raise NotFoundError(f"step {step} of {run_id!r} has no times to draw")
    samples = service.list_trajectories(run_id, step, "start", _MAX_SAMPLES)
    heatmaps = [
        service.get_gpu_heatmap(run_id, field, start_ns, end_ns, _MAX_BINS) for field in _GPU_FIELDS
    ]
    events = [
        *_trace_loop(detail, end_ns),
        *_trace_lanes(detail),
        *_trace_samples(samples),
        *(event for heatmap in heatmaps for event in _trace_gpus(heatmap)),
    ]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"run_id": run_id, "step": step, "start_ns": start_ns, "source": "Longpole"},
    }


def _trace_loop(detail: StepDetail, end_ns: int) -> Iterable[Event]:
    step = detail.step
    yield _name_process(_LOOP, "training loop")
    yield _name_thread(_LOOP, _STAGES, "step and stages")
    about = {"verdict": step.verdict, "confidence": step.confidence}
    yield _window(_LOOP, _STAGES, f"step {step.step}", step.start_ns, end_ns, about)
    for stage in step.stages:
        about = {"exclusive_s": stage.exclusive_s, "source": stage.source}
        for start_ns, stop_ns in stage.windows:
            yield _window(_LOOP, _STAGES, stage.stage, start_ns, stop_ns, about)


def _trace_lanes(detail: StepDetail) -> Iterable[Event]:
    """Stages of other processes, a process of the trace each."""
    numbers: dict[tuple[str, int, str], int] = {}
    for lane in detail.lanes:
        key = (lane.host, lane.pid, lane.role)
        if key not in numbers:
            numbers[key] = _FIRST_OTHER + len(numbers)
            yield _name_process(numbers[key], f"{lane.role} {lane.host} pid {lane.pid}")
        yield _window(numbers[key], _STAGES, lane.stage, lane.start_ns, lane.end_ns, {})


def _trace_samples(samples: Sequence[Trajectory]) -> Iterable[Event]:
    """Samples on as few rows as they fit without overlapping."""
    if not samples:
        return
    yield _name_process(_SAMPLES, "samples")
    # Rows by when they are free again.
    free: list[tuple[int, int]] = []
    for sample in sorted(samples, key=lambda each: (each.start_ns, each.end_ns)):
        end_ns = max(sample.end_ns, sample.start_ns + 1)
        if free and free[0][0] <= sample.start_ns:
            row = free[0][1]
            heapq.heapreplace(free, (end_ns, row))
        else:
            row = len(free) + 1
            heapq.heappush(free, (end_ns, row))
        about = {
            "group_id": sample.group_id,
            "output_tokens": sample.output_tokens,
            "generate_s": sample.generate_s,
            "tool_s": sample.tool_s,
            "score_s": sample.score_s,
            "queue_s": sample.queue_s,
            "replica": sample.replica,
            "status": sample.status,
        }
        yield _window(_SAMPLES, row, sample.trajectory_id, sample.start_ns, sample.end_ns, about)


def _trace_gpus(heatmap: GpuHeatmap) -> Iterable[Event]:
    if heatmap.lanes:
        yield _name_process(_GPUS, "GPUs")
    for lane, gpu in enumerate(heatmap.lanes):
        name = f"{gpu.host} GPU {gpu.gpu_index} {heatmap.field}"
        for index, value in enumerate(heatmap.values[lane].tolist()):
            if math.isfinite(value):
                ts_ns = heatmap.start_ns + index * heatmap.bin_ns
                yield {
                    "ph": "C", "pid": _GPUS, "tid": 0, "name": name, "ts": ts_ns / 1e3,
                    "args": {heatmap.field: value},
                }  # fmt: skip


def _window(
    process: int, thread: int, name: str, start_ns: int, end_ns: int, about: dict[str, Any]
) -> Event:
    return {
        "ph": "X", "pid": process, "tid": thread, "name": name, "cat": "longpole",
        "ts": start_ns / 1e3, "dur": max(0, end_ns - start_ns) / 1e3,
        "args": {key: value for key, value in about.items() if value is not None},
    }  # fmt: skip


def _name_process(process: int, name: str) -> Event:
    return {"ph": "M", "pid": process, "tid": 0, "name": "process_name", "args": {"name": name}}


def _name_thread(process: int, thread: int, name: str) -> Event:
    return {
        "ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": {"name": name}
    }  # fmt: skip
