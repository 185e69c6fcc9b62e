"""Labelled runs of GPUs, nodes, agents, the server, and of whether a run gets on.

Every half minute somebody looks: gauges scatter, reports come late, and what looks like trouble for
a moment or has a reason is none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from longpole_server.alerts.history import (
    GpuGroup,
    GpuMinute,
    HardwareMinute,
    HostSeen,
    OwnState,
    StepPoint,
)
from longpole_server.model.step import Step
from support.alert_engine_series import BEGIN_NS, RUN_ID, Rng, S
from support.alert_labels import Labelled, make_run_of

_STEPS = 40
_EVERY_S = 30
_GPUS = 8
_Change = Callable[[int, GpuMinute], GpuMinute]
_HostChange = Callable[[int, HostSeen], HostSeen]


@dataclass(frozen=True)
class _Plan:
    """What happens; indices of half minutes begin at 0.

    Attributes:
        gpu, host: What becomes of the first GPU and of the first node at such an index.
        every_gpu: The same of all GPUs.
        seconds: Of each step.
    """

    gpu: _Change = lambda _, gpu: gpu
    every_gpu: _Change = lambda _, gpu: gpu
    host: _HostChange = lambda _, host: host
    seconds: Sequence[float] = ()


def _run(
    rng: Rng, plan: _Plan, expected: str | None = None, onset: int | None = None, **fields: Any
) -> Labelled:
    """Return a run; the trouble begins at the index `onset`."""
    tolerated = frozenset(fields.pop("tolerated", ()))
    seconds = plan.seconds or rng.normal(75, 4, _STEPS).tolist()
    ends_s = np.cumsum(seconds)
    points = [_point(at, float(ends_s[at]), seconds[at]) for at in range(len(seconds))]
    count = int(ends_s[-1]) // _EVERY_S
    hardware = [_look(rng, plan, index) for index in range(1, count)]
    step = None
    if onset is not None:
        step = 1 + int(np.searchsorted(ends_s, onset * _EVERY_S, side="right"))
    return Labelled(
        make_run_of(points, **fields),
        points,
        frozenset() if expected is None else frozenset({expected}),
        tolerated,
        step,
        hardware=hardware,
    )


def _point(at: int, end_s: float, seconds: float) -> StepPoint:
    step = Step(
        run_id=RUN_ID,
        step=at + 1,
        attempt=1,
        start_ns=BEGIN_NS + round((end_s - seconds) * S),
        end_ns=BEGIN_NS + round(end_s * S),
        duration_s=seconds,
        closed_by="loop",
        stages=(),
        unattributed_s=None,
        outside=(),
    )
    return StepPoint(step)


def _look(rng: Rng, plan: _Plan, index: int) -> HardwareMinute:
    ts_ns = BEGIN_NS + index * _EVERY_S * S
    late_ns = [ts_ns - round(float(rng.uniform(0, 4)) * S) for _ in range(_GPUS + 2)]
    gpus = [
        plan.every_gpu(
            index,
            GpuMinute(
                host=f"node-{number // 4}",
                gpu_uuid=f"GPU-{number}",
                gpu_index=number % 4,
                role="rollout",
                newest_ns=late_ns[number],
                num_samples=60,
                utilization_ratio=float(rng.uniform(0.6, 0.95)),
                tensor_active_ratio=float(rng.uniform(0.1, 0.4)),
                power_watts=float(rng.uniform(400, 680)),
                throttled_ratio=float(rng.uniform(0, 0.05)),
                xid=0,
                ecc_errors=0,
            ),
        )
        for number in range(_GPUS)
    ]
    hosts = [
        HostSeen(
            f"node-{number}",
            late_ns[_GPUS + number],
            spool_used_ratio=float(rng.uniform(0, 0.1)),
            disk_used_ratio=0.5,
            num_dropped=0,
            clock_ahead_s=float(rng.normal(0, 0.02)),
        )
        for number in range(2)
    ]
    gpus[0], hosts[0] = plan.gpu(index, gpus[0]), plan.host(index, hosts[0])
    return HardwareMinute(ts_ns, GpuGroup(gpus), tuple(hosts))


def _onset(rng: Rng) -> int:
    return int(rng.integers(20, 50))


def _gpu_from(onset: int, **fields: Any) -> _Change:
    return lambda index, gpu: replace(gpu, **fields) if index >= onset else gpu


def _host_from(onset: int, **fields: Any) -> _HostChange:
    return lambda index, host: replace(host, **fields) if index >= onset else host


def _silence(onset: int, until: int = 10**6) -> Callable[[int, Any], Any]:
    newest_ns = BEGIN_NS + (onset * _EVERY_S - 1) * S

    def silence(index: int, seen: Any) -> Any:
        return replace(seen, newest_ns=newest_ns) if onset <= index < until else seen

    return silence


def nothing_wrong(rng: Rng) -> Labelled:
    """GPUs work, nodes report, steps close."""
    return _run(rng, _Plan())


def gpu_lost(rng: Rng) -> Labelled:
    """A GPU reports nothing any more, its node does."""
    onset = _onset(rng)
    return _run(rng, _Plan(gpu=_silence(onset)), "gpu.lost", onset)


def gpu_reports_late(rng: Rng) -> Labelled:
    """A report of one GPU is missed, and comes a little later."""
    onset = _onset(rng)
    return _run(rng, _Plan(gpu=_silence(onset, onset + 1)))


def xid(rng: Rng) -> Labelled:
    """The driver says that the GPU fell off the bus, or that its memory is bad."""
    onset = _onset(rng)
    number = int(rng.choice([48, 74, 79, 94, 95]))
    return _run(rng, _Plan(gpu=_gpu_from(onset, xid=number)), "gpu.xid", onset)


def memory_errors(rng: Rng) -> Labelled:
    """Memory errors that could not be corrected."""
    onset = _onset(rng)
    return _run(rng, _Plan(gpu=_gpu_from(onset, ecc_errors=2)), "gpu.xid", onset)


def driver_says_nothing(rng: Rng) -> Labelled:
    """No driver tells of errors: that is no error."""
    return _run(rng, _Plan(every_gpu=_gpu_from(0, xid=None, ecc_errors=None)))


def throttled(rng: Rng) -> Labelled:
    """Heat holds one GPU back most of the time."""
    onset, part = _onset(rng), float(rng.uniform(0.6, 1))
    change = _gpu_from(onset, throttled_ratio=part, throttle_reasons=0x40)
    return _run(rng, _Plan(gpu=change), "gpu.throttled", onset)


def throttled_for_a_moment(rng: Rng) -> Labelled:
    """Power is capped for half a minute now and then, and a little all the time."""
    at = frozenset(range(10, 90, int(rng.integers(6, 12))))

    def change(index: int, gpu: GpuMinute) -> GpuMinute:
        part = 0.8 if index in at else float(rng.uniform(0.1, 0.3))
        return replace(gpu, throttled_ratio=part, throttle_reasons=0x80)

    return _run(rng, _Plan(every_gpu=change))


def idle_among_busy(rng: Rng) -> Labelled:
    """One GPU does nothing while the others work."""
    onset = _onset(rng)
    return _run(rng, _Plan(gpu=_gpu_from(onset, utilization_ratio=0.01)), "gpu.idle", onset)


def all_idle_by_turns(rng: Rng) -> Labelled:
    """The GPUs of a role all wait while another role works, and one a little longer."""
    period = int(rng.integers(12, 20))

    def rest(index: int, gpu: GpuMinute) -> GpuMinute:
        return replace(gpu, utilization_ratio=0.02) if index % period < period // 2 else gpu

    def rest_longer(index: int, gpu: GpuMinute) -> GpuMinute:
        return replace(gpu, utilization_ratio=0.02) if index % period < period // 2 + 4 else gpu

    return _run(rng, _Plan(every_gpu=rest, gpu=rest_longer))


def node_silent(rng: Rng) -> Labelled:
    """A node and its GPUs say nothing any more."""
    onset = _onset(rng)
    silence = _silence(onset)

    def silence_gpus(index: int, gpu: GpuMinute) -> GpuMinute:
        return silence(index, gpu) if gpu.host == "node-0" else gpu

    plan = _Plan(host=silence, every_gpu=silence_gpus)
    return _run(rng, plan, "node.silent", onset)


def node_reports_late(rng: Rng) -> Labelled:
    """An agent starts anew: nothing comes for half a minute."""
    onset = _onset(rng)
    silence = _silence(onset, onset + 1)
    return _run(rng, _Plan(host=silence, every_gpu=silence))


def clock_wrong(rng: Rng) -> Labelled:
    """A node's clock jumps."""
    onset, ahead_s = _onset(rng), float(rng.uniform(6, 600) * rng.choice([-1, 1]))
    change = _host_from(onset, clock_ahead_s=ahead_s)
    return _run(rng, _Plan(host=change), "clock.skew", onset)


def clock_wanders(rng: Rng) -> Labelled:
    """A clock drifts by a second or two and is set right; once it is measured badly."""
    once = _onset(rng)

    def wander(index: int, host: HostSeen) -> HostSeen:
        return replace(host, clock_ahead_s=7.0 if index == once else 0.1 * (index % 20))

    return _run(rng, _Plan(host=wander))


def spool_fills(rng: Rng) -> Labelled:
    """The agent reaches nobody: its spool fills."""
    onset = _onset(rng)

    def fill(index: int, host: HostSeen) -> HostSeen:
        return replace(host, spool_used_ratio=min(1.0, max(0.05, 0.81 + 0.05 * (index - onset))))

    return _run(rng, _Plan(host=fill), "spool.filling", onset)


def disk_under_spool_fills(rng: Rng) -> Labelled:
    """Something else fills the disk of a node."""
    onset = _onset(rng)
    return _run(rng, _Plan(host=_host_from(onset, disk_used_ratio=0.97)), "spool.filling", onset)


def agent_drops(rng: Rng) -> Labelled:
    """An agent gave up batches."""
    onset = _onset(rng)
    return _run(rng, _Plan(host=_host_from(onset, num_dropped=12)), "spool.filling", onset)


def spool_catches_up(rng: Rng) -> Labelled:
    """The server was away for a while: the spool fills to half and empties."""

    def fill(index: int, host: HostSeen) -> HostSeen:
        return replace(host, spool_used_ratio=max(0.0, 0.6 - 0.03 * abs(index - 45)))

    return _run(rng, _Plan(host=fill))


def _steps_with(rng: Rng, at: int, factor: float) -> list[float]:
    seconds = rng.normal(75, 4, _STEPS).tolist()
    seconds[at] *= factor
    return seconds


def _index_of(seconds: Sequence[float], at: int) -> int:
    return int(sum(seconds[:at])) // _EVERY_S


def stalled(rng: Rng) -> Labelled:
    """A step takes for ever, and its GPUs do little."""
    at = int(rng.integers(15, 30))
    seconds = _steps_with(rng, at, float(rng.uniform(8, 20)))
    return _run(rng, _Plan(seconds=seconds), "run.stalled", _index_of(seconds, at))


def a_long_step(rng: Rng) -> Labelled:
    """A step takes three or four times as long, and closes."""
    return _run(rng, _Plan(seconds=_steps_with(rng, 25, float(rng.uniform(3, 4.5)))))


def hangs(rng: Rng) -> Labelled:
    """The ranks wait for each other in a collective."""
    at = int(rng.integers(15, 30))
    seconds = _steps_with(rng, at, float(rng.uniform(9, 20)))
    begin = _index_of(seconds, at) + 1
    end = begin + int(seconds[at]) // _EVERY_S - 2

    def spin(index: int, gpu: GpuMinute) -> GpuMinute:
        if not begin <= index < end:
            return gpu
        return replace(gpu, utilization_ratio=1.0, tensor_active_ratio=0.0, power_watts=130.0)

    plan = _Plan(seconds=seconds, every_gpu=spin)
    return _run(rng, plan, "run.hang", begin, tolerated=("run.stalled",))


def works_through_a_long_step(rng: Rng) -> Labelled:
    """A step of four times the length in which every GPU computes, and spins for a moment."""
    seconds = _steps_with(rng, 25, 4.0)
    begin = _index_of(seconds, 25) + 4

    def spin(index: int, gpu: GpuMinute) -> GpuMinute:
        if index != begin:
            return gpu
        return replace(gpu, utilization_ratio=1.0, tensor_active_ratio=0.0, power_watts=130.0)

    return _run(rng, _Plan(seconds=seconds, every_gpu=spin))


def crashes(rng: Rng) -> Labelled:
    """The trainer dies, with a word or without one."""
    state = str(rng.choice(["crashed", "lost"]))
    status = "crashed" if state == "crashed" else None
    labelled = _run(rng, _Plan(), "trainer.gone", state=state, end_status=status)
    return replace(labelled, onset_step=_STEPS)


def finishes(rng: Rng) -> Labelled:
    """The run ends as it should."""
    return _run(rng, _Plan(), state="finished", end_status="finished")


def _own(rng: Rng, states: Sequence[Mapping[str, Any]], expected: str | None = None) -> Labelled:
    """Return a healthy run on a server in such states, and the trouble that begins at index 20."""
    labelled = _run(rng, _Plan(), expected, 20 if expected is not None else None)
    known: dict[str, Any] = {
        "up_s": 9_000.0,
        "num_pending": 0,
        "num_dropped": 0,
        "dropped_window_s": 300.0,
        "disk_used_ratio": 0.6,
        "disk_free_bytes": 10**11,
    }
    own = [
        (BEGIN_NS + index * _EVERY_S * S, OwnState(**{**known, **state}))
        for index, state in enumerate(states)
    ]
    return replace(labelled, own=own)


def servers_disk_fills(rng: Rng) -> Labelled:
    """The data directory's disk fills up."""
    rise = float(rng.uniform(0.002, 0.01))
    states = [{"disk_used_ratio": min(1.0, 0.901 + rise * (at - 20))} for at in range(60)]
    return _own(rng, states, "disk.filling")


def servers_disk_is_cleared(rng: Rng) -> Labelled:
    """It comes near, old data is deleted, and it comes near again."""
    return _own(rng, [{"disk_used_ratio": 0.7 + 0.018 * (at % 11)} for at in range(60)])


def server_refuses(rng: Rng) -> Labelled:
    """The server lost requests, or sent senders away."""
    lost = int(rng.integers(1, 500))
    states = [{"num_dropped": lost if at >= 20 else 0, "num_pending": 900} for at in range(60)]
    return _own(rng, states, "ingest.dropping")


def server_lags(rng: Rng) -> Labelled:
    """Much waits to be stored, and nothing is lost."""
    return _own(rng, [{"num_pending": int(rng.integers(0, 900))} for _ in range(60)])


HARDWARE_CASES: Mapping[str, Callable[[Rng], Labelled]] = {
    case.__name__: case
    for case in (
        nothing_wrong,
        gpu_lost,
        gpu_reports_late,
        xid,
        memory_errors,
        driver_says_nothing,
        throttled,
        throttled_for_a_moment,
        idle_among_busy,
        all_idle_by_turns,
        node_silent,
        node_reports_late,
        clock_wrong,
        clock_wanders,
        spool_fills,
        disk_under_spool_fills,
        agent_drops,
        spool_catches_up,
        stalled,
        a_long_step,
        hangs,
        works_through_a_long_step,
        crashes,
        finishes,
        servers_disk_fills,
        servers_disk_is_cleared,
        server_refuses,
        server_lags,
    )
}
