"""GPUs and nodes of a stored run minute by minute, for replays of the rules about them."""

import bisect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from longpole_server.alerts.history import GpuGroup, GpuMinute, HardwareMinute, HostSeen, RunContext
from longpole_server.model.gpu import RunGpu
from longpole_server.read import Reader
from longpole_server.read.alerts import AlertReader, PastGpuRow, PastHostRow

_MINUTE_NS = 60 * 10**9
# Of a long run the newest minutes: so many of all its GPUs together.
_MAX_GPU_MINUTES = 200_000
# Errors count for so many minutes.
_FAULT_MINUTES = 10


class PastHardware:
    """Reads the hardware of stored runs. Thread-safe.

    Args:
        reader: Says who held which GPU.
        alert_reader: Averages GPUs.
    """

    def __init__(self, reader: Reader, alert_reader: AlertReader) -> None:
        self._reader = reader
        self._alert_reader = alert_reader

    def list_minutes(self, run: RunContext) -> Iterator[HardwareMinute]:
        """Return the minutes of an attempt in order, none where no samples are kept.

        Raises:
            StoreError: The database failed.
        """
        held = {
            gpu.gpu_uuid: gpu
            for gpu in self._reader.list_run_gpus(run.facts.run_id)
            if gpu.attempt == run.attempt
        }
        if not held:
            return
        longest_ns = max(60, _MAX_GPU_MINUTES // len(held)) * _MINUTE_NS
        span_ns = (max(run.started_ns, run.last_seen_ns - longest_ns), run.last_seen_ns)
        gpus = self._alert_reader.list_gpu_minutes(sorted(held), span_ns)
        names = sorted({gpu.host for gpu in gpus})
        hosts = self._alert_reader.list_host_minutes(names, span_ns)
        yield from _join(gpus, hosts, held, span_ns[1])


def _join(
    gpus: Sequence[PastGpuRow],
    hosts: Sequence[PastHostRow],
    held: Mapping[str, RunGpu],
    end_ns: int,
) -> Iterator[HardwareMinute]:
    by_minute: defaultdict[int, dict[str, PastGpuRow]] = defaultdict(dict)
    for gpu in gpus:
        by_minute[gpu.minute][gpu.gpu_uuid] = gpu
    hosts_by_minute: defaultdict[int, dict[str, PastHostRow]] = defaultdict(dict)
    for host in hosts:
        hosts_by_minute[host.minute][host.host] = host
    minutes = sorted({*by_minute, *hosts_by_minute})
    if not minutes:
        return
    faults = _Faults(gpus)
    last_gpu: dict[str, PastGpuRow] = {}
    last_host: dict[str, int] = {}
    # A minute in which nothing comes is one too.
    for minute in range(minutes[0], end_ns // _MINUTE_NS + 1):
        now, seen = by_minute.get(minute, {}), hosts_by_minute.get(minute, {})
        last_gpu.update(now)
        for name, newest_ns in (
            *((row.host, row.newest_ns) for row in now.values()),
            *((row.host, row.newest_ns) for row in seen.values()),
        ):
            last_host[name] = max(newest_ns, last_host.get(name, newest_ns))
        ts_ns = min((minute + 1) * _MINUTE_NS, end_ns)
        yield HardwareMinute(
            ts_ns,
            GpuGroup(
                _describe_gpu(row, held[uuid].role, uuid in now, *faults.count(uuid, minute))
                for uuid, row in last_gpu.items()
                if _is_held(held[uuid], ts_ns)
            ),
            tuple(
                HostSeen(name, newest_ns, *_describe_agent(seen.get(name)))
                for name, newest_ns in last_host.items()
            ),
        )


def _is_held(gpu: RunGpu, ts_ns: int) -> bool:
    return gpu.until_ns is None or ts_ns <= gpu.until_ns


def _describe_gpu(
    row: PastGpuRow, role: str, is_heard: bool, xid: int | None, ecc_errors: int | None
) -> GpuMinute:
    if not is_heard:
        return GpuMinute(
            row.host,
            row.gpu_uuid,
            row.gpu_index,
            role,
            row.newest_ns,
            0,
            xid=xid,
            ecc_errors=ecc_errors,
        )
    return GpuMinute(
        row.host,
        row.gpu_uuid,
        row.gpu_index,
        role,
        row.newest_ns,
        row.num_samples,
        row.utilization_ratio,
        row.sm_active_ratio,
        row.tensor_active_ratio,
        row.power_watts,
        row.num_throttled / row.num_with_reasons if row.num_with_reasons else None,
        row.throttle_reasons,
        xid,
        ecc_errors,
    )


def _describe_agent(row: PastHostRow | None) -> tuple[float | None, float | None]:
    return (row.spool_used_ratio, row.disk_used_ratio) if row is not None else (None, None)


class _Faults:
    """Errors that drivers reported, by GPU and minute."""

    def __init__(self, rows: Sequence[PastGpuRow]) -> None:
        self._xids: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self._totals: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for row in rows:
            if row.xid is not None:
                self._xids[row.gpu_uuid].append((row.minute, row.xid))
            if row.ecc_total is not None:
                self._totals[row.gpu_uuid].append((row.minute, row.ecc_total))

    def count(self, gpu: str, minute: int) -> tuple[int | None, int | None]:
        """Return the newest XID of the last minutes, and by how much memory errors grew."""
        xids = _since(self._xids.get(gpu, ()), minute)
        totals = _since(self._totals.get(gpu, ()), minute)
        if not xids and not totals:
            return None, None
        grown = max(0, totals[-1] - min(totals)) if totals else None
        return next((xid for xid in reversed(xids) if xid), 0 if xids else None), grown


def _since(found: Sequence[tuple[int, int]], minute: int) -> list[int]:
    first = bisect.bisect_left(found, (minute - _FAULT_MINUTES + 1, -1))
    last = bisect.bisect_right(found, (minute, 1 << 62))
    return [value for _, value in found[first:last]]
