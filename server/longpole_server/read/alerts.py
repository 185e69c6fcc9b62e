"""Alerts as stored, and what their rules read beside steps: samples counted, GPUs of the minute."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from longpole.conventions.gpus import THROTTLE_REASONS
from longpole_server.model.alert import (
    AlertEvent,
    AlertMessage,
    Delivery,
    Silence,
    UserRule,
)
from longpole_server.model.records import UNKNOWN_STEP
from longpole_server.model.step import Step
from longpole_server.read.alert_engines import (
    EngineSeriesRow,
    MemoryRow,
    list_engine_series,
    list_gpu_memory,
    list_host_memory,
)
from longpole_server.read.pool import ClientPool, make_records, make_rows
from longpole_server.store import Store
from longpole_server.store.alerts import read_event, read_rule

# What happened since, and all of what is not over yet. Of the events that only count, the last of
# each alert: it says all that the ones before it said.
_EVENTS_SINCE = """
WITH wanted AS (
    SELECT alert_id FROM alert_events
    GROUP BY alert_id
    HAVING countIf(kind IN ('resolved', 'dropped')) = 0
        OR max(decided_ns) >= fromUnixTimestamp64Nano({since_ns:Int64})
)
SELECT * FROM (
    SELECT * FROM alert_events FINAL
    WHERE kind != 'seen' AND alert_id IN wanted
    UNION ALL
    SELECT * FROM alert_events FINAL
    WHERE kind = 'seen' AND alert_id IN wanted
    ORDER BY decided_ns DESC
    LIMIT 1 BY alert_id
)
ORDER BY decided_ns, alert_id
"""
_DECIDED_SINCE = """
SELECT * FROM alert_events FINAL
WHERE decided_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
ORDER BY decided_ns, alert_id
LIMIT 50000
"""
# What rules measured of what was wrong, newest last.
_MEASURED_SINCE = """
SELECT * FROM (
    SELECT * FROM alert_events FINAL
    WHERE decided_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
      AND kind IN ('pending', 'firing', 'seen', 'repeated')
    ORDER BY decided_ns DESC
    LIMIT 20000
)
ORDER BY decided_ns, alert_id
"""
_EVENTS_PAGE = """
SELECT * FROM alert_events FINAL
WHERE kind != 'seen'
  AND ({run_id:Nullable(String)} IS NULL OR run_id = {run_id:Nullable(String)})
ORDER BY decided_ns DESC, alert_id
LIMIT {limit:UInt64} OFFSET {offset:UInt64}
"""
_EVENTS_OF_IDS = """
SELECT * FROM alert_events FINAL WHERE event_id IN {ids:Array(String)}
ORDER BY decided_ns, alert_id
"""
_SILENCES = "SELECT * FROM alert_silences FINAL ORDER BY created_ns DESC, silence_id"
_RULES = "SELECT document FROM alert_rules FINAL WHERE document != '' ORDER BY rule_id"
_MESSAGES = """
SELECT * FROM alert_messages FINAL
WHERE created_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
ORDER BY created_ns, message_id
"""
_DELIVERIES = """
SELECT * FROM alert_deliveries FINAL
WHERE ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
ORDER BY ts_ns, message_id, channel, attempt
"""
# Samples of unknown step belong to the step whose window holds their end. The arrays begin with an
# entry for "none", since an index of 0 means that nothing was found.
_SAMPLES = """
WITH
    {numbers:Array(Int64)} AS numbers,
    arrayFirstIndex(
        (s, e) -> (toUnixTimestamp64Nano(end_ns) > s) AND (toUnixTimestamp64Nano(end_ns) <= e),
        {starts:Array(Int64)}, {ends:Array(Int64)}
    ) AS found
SELECT
    if(trajectories.step >= 0, trajectories.step, numbers[found + 1]) AS number,
    ifNull(replica, '') AS name,
    count(),
    countIf(reward IS NOT NULL),
    countIf(reward = 0),
    countIf(status = 'dropped_stale'),
    countIf(preemptions > 0),
    countIf(preemptions IS NOT NULL),
    max(greatest(ifNull(policy_version_end, -1), ifNull(policy_version_start, -1))),
    toUnixTimestamp64Nano(max(end_ns)),
    groupArrayIf(ifNull(score_s, 0), score_s IS NOT NULL),
    groupArrayIf(ifNull(score_s, 0), score_s IS NOT NULL AND reward = 0),
    groupArrayIf(ifNull(reward, 0), reward IS NOT NULL),
    countIf(policy_version_start IS NOT NULL),
    min(policy_version_start),
    sum(ifNull(policy_version_start, 0)),
    sumIf(
        greatest(policy_version_end - policy_version_start, 0),
        policy_version_start IS NOT NULL AND policy_version_end IS NOT NULL
    ),
    countIf(reward IS NULL AND ifNull(status, '') NOT IN ('aborted', 'filtered', 'dropped_stale'))
FROM trajectories FINAL
WHERE run_id = {run_id:String} AND attempt = {attempt:Int64} AND phase = 'train'
  AND (trajectories.step IN {numbers:Array(Int64)} OR (
    trajectories.step = {unknown:Int64}
    AND end_ns > fromUnixTimestamp64Nano({first_ns:Int64})
    AND end_ns <= fromUnixTimestamp64Nano({last_ns:Int64})
  ))
GROUP BY number, name
HAVING number >= 0
ORDER BY number, name
"""
_GPU_MINUTE = """
SELECT
    gpu_uuid,
    count(),
    avg(toFloat64(utilization_ratio)),
    avg(toFloat64(sm_active_ratio)),
    avg(toFloat64(tensor_active_ratio)),
    avg(toFloat64(power_watts)),
    countIf(clocks_event_reasons IS NOT NULL),
    countIf(bitAnd(ifNull(clocks_event_reasons, 0), {mask:Int64}) != 0),
    groupBitOr(bitAnd(ifNull(clocks_event_reasons, 0), {mask:Int64}))
FROM gpu_samples
WHERE ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
  AND toStartOfTenMinutes(ts_ns) >= toStartOfTenMinutes(fromUnixTimestamp64Nano({since_ns:Int64}))
GROUP BY gpu_uuid
"""
# Errors of the last minutes: the newest XID that was reported, and by how much memory errors grew.
_GPU_FAULTS = """
SELECT
    gpu_uuid,
    if(countIf(xid > 0) > 0, argMaxIf(xid, ts_ns, xid > 0), max(xid)),
    countIf(xid > 0),
    greatest(argMax(ecc_uncorrected_errors, ts_ns) - min(ecc_uncorrected_errors), 0)
FROM gpu_samples
WHERE ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
  AND toStartOfTenMinutes(ts_ns) >= toStartOfTenMinutes(fromUnixTimestamp64Nano({since_ns:Int64}))
GROUP BY gpu_uuid
HAVING max(xid) IS NOT NULL OR max(ecc_uncorrected_errors) IS NOT NULL
"""
# The same over the minutes of a span, numbered since 1970.
_GPU_MINUTES = """
SELECT
    gpu_uuid,
    intDiv(toUnixTimestamp64Nano(ts_ns), 60000000000) AS minute,
    any(host),
    any(gpu_index),
    toUnixTimestamp64Nano(max(gpu_samples.ts_ns)),
    count(),
    avg(toFloat64(utilization_ratio)),
    avg(toFloat64(sm_active_ratio)),
    avg(toFloat64(tensor_active_ratio)),
    avg(toFloat64(power_watts)),
    countIf(clocks_event_reasons IS NOT NULL),
    countIf(bitAnd(ifNull(clocks_event_reasons, 0), {mask:Int64}) != 0),
    groupBitOr(bitAnd(ifNull(clocks_event_reasons, 0), {mask:Int64})),
    if(countIf(xid > 0) > 0, argMaxIf(xid, gpu_samples.ts_ns, xid > 0), max(xid)),
    max(ecc_uncorrected_errors)
FROM gpu_samples
WHERE gpu_uuid IN {ids:Array(String)}
  AND ts_ns >= fromUnixTimestamp64Nano({start_ns:Int64})
  AND ts_ns <= fromUnixTimestamp64Nano({end_ns:Int64})
  AND toStartOfTenMinutes(ts_ns) >= toStartOfTenMinutes(fromUnixTimestamp64Nano({start_ns:Int64}))
  AND toStartOfTenMinutes(ts_ns) <= toStartOfTenMinutes(fromUnixTimestamp64Nano({end_ns:Int64}))
GROUP BY gpu_uuid, minute
ORDER BY minute, gpu_uuid
"""
_HOST_MINUTES = """
SELECT
    host,
    intDiv(toUnixTimestamp64Nano(ts_ns), 60000000000) AS minute,
    toUnixTimestamp64Nano(max(host_samples.ts_ns)),
    argMax(toFloat64(spool_used_ratio), host_samples.ts_ns),
    argMax(toFloat64(disk_used_ratio), host_samples.ts_ns)
FROM host_samples
WHERE host IN {ids:Array(String)}
  AND ts_ns >= fromUnixTimestamp64Nano({start_ns:Int64})
  AND ts_ns <= fromUnixTimestamp64Nano({end_ns:Int64})
  AND toStartOfHour(ts_ns) >= toStartOfHour(fromUnixTimestamp64Nano({start_ns:Int64}))
GROUP BY host, minute
ORDER BY minute, host
"""
# Samples of the last minute. Where a clock was ahead and is right again, others stay the newest.
_FRESH = "(ts_ns <= now64(9, 'UTC') AND ts_ns > now64(9, 'UTC') - toIntervalMinute(1))"
# How agents do: the newest of what they say, and what they dropped in the last minutes.
_AGENTS = """
SELECT
    host,
    argMax(toFloat64(spool_used_ratio), ($fresh, ts_ns)),
    argMax(toFloat64(disk_used_ratio), ($fresh, ts_ns)),
    greatest(argMax(agent_dropped_total, ($fresh, ts_ns)) - min(agent_dropped_total), 0),
    argMax(toFloat64(clock_offset_s), ($fresh, ts_ns))
FROM host_samples
WHERE (empty({hosts:Array(String)}) OR host IN {hosts:Array(String)})
  AND ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
  AND toStartOfHour(ts_ns) >= toStartOfHour(fromUnixTimestamp64Nano({since_ns:Int64}))
GROUP BY host
HAVING max(spool_used_ratio) IS NOT NULL
""".replace("$fresh", _FRESH)
# What a node's agent says of its clock decides which of its samples is the newest.
_HOSTS = """
SELECT host, toUnixTimestamp64Nano(max(newest)) FROM (
    SELECT host, max(ts_ns) AS newest FROM gpu_latest
    WHERE ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64}) GROUP BY host
    UNION ALL
    SELECT
        host,
        if(
            countIf($fresh AND clock_offset_s IS NOT NULL) > 0
                AND abs(ifNull(argMaxIf(clock_offset_s, ts_ns, $fresh), 0)) < 5,
            maxIf(ts_ns, $fresh),
            max(ts_ns)
        ) AS newest
    FROM host_samples
    WHERE ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64}) GROUP BY host
)
GROUP BY host
""".replace("$fresh", _FRESH)
_THROTTLE_MASK = sum(THROTTLE_REASONS)


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """Training samples of one replica in one step; `replica` is empty where none is named.

    Attributes:
        version_max: Newest policy version, None when unknown.
        score_s, zero_score_s: Seconds of scoring: of all that report it, and of those with a
            reward of exactly 0.
        rewards: Of all that have one.
        num_versions: Samples that say with which policy version they were begun.
        version_min: The oldest of these, None without any; `version_sum` their sum.
        flight_sum: Versions that passed while samples were generated, summed.
        num_unscored: Without a reward, though nobody threw them away before.
    """

    step: int
    replica: str
    num_samples: int
    num_scored: int
    num_zero_rewards: int
    num_dropped_stale: int
    num_preempted: int
    num_reporting_preemptions: int
    version_max: int | None
    newest_end_ns: int
    score_s: tuple[float, ...]
    zero_score_s: tuple[float, ...]
    rewards: tuple[float, ...] = ()
    num_versions: int = 0
    version_min: int | None = None
    version_sum: int = 0
    flight_sum: int = 0
    num_unscored: int = 0


@dataclass(frozen=True, slots=True)
class GpuMinuteRow:
    """Means of one GPU since a time; None where nothing was reported."""

    gpu_uuid: str
    num_samples: int
    utilization_ratio: float | None
    sm_active_ratio: float | None
    tensor_active_ratio: float | None
    power_watts: float | None
    num_with_reasons: int
    num_throttled: int
    throttle_reasons: int


@dataclass(frozen=True, slots=True)
class GpuFaultRow:
    """What a driver said of a GPU since a time; None where nothing was said.

    Attributes:
        xid: Number of the newest XID error, 0 where one would have been heard of.
        ecc_errors: Memory errors that could not be corrected.
    """

    gpu_uuid: str
    xid: int | None
    num_xids: int
    ecc_errors: int | None


@dataclass(frozen=True, slots=True)
class AgentRow:
    """What the agent of a node said of itself since a time; None where nothing was said."""

    host: str
    spool_used_ratio: float | None
    disk_used_ratio: float | None
    num_dropped: int | None
    clock_ahead_s: float | None = None


@dataclass(frozen=True, slots=True)
class PastGpuRow:
    """Means of one GPU over one minute (numbered since 1970); None where nothing was reported."""

    gpu_uuid: str
    minute: int
    host: str
    gpu_index: int
    newest_ns: int
    num_samples: int
    utilization_ratio: float | None
    sm_active_ratio: float | None
    tensor_active_ratio: float | None
    power_watts: float | None
    num_with_reasons: int
    num_throttled: int
    throttle_reasons: int
    xid: int | None
    ecc_total: int | None


@dataclass(frozen=True, slots=True)
class PastHostRow:
    """One node in one minute (numbered since 1970)."""

    host: str
    minute: int
    newest_ns: int
    spool_used_ratio: float | None
    disk_used_ratio: float | None


class AlertReader:
    """Reads alerts and what their rules need. Thread-safe.

    Every method raises `StoreError` when the database fails.

    Args:
        pool: Its connections, closed with it.
    """

    def __init__(self, pool: ClientPool) -> None:
        self._pool = pool

    @property
    def pool(self) -> ClientPool:
        """Its connections."""
        return self._pool

    def list_events_since(self, since_ns: int) -> list[AlertEvent]:
        """Return what was decided since a time and all of what is not over, in order."""
        return self._list_events(_EVENTS_SINCE, {"since_ns": since_ns})

    def list_decided_since(self, since_ns: int) -> list[AlertEvent]:
        """Return what was decided since a time, in order."""
        return self._list_events(_DECIDED_SINCE, {"since_ns": since_ns})

    def list_measured_since(self, since_ns: int) -> list[AlertEvent]:
        """Return what was decided since a time of conditions that were met, in order."""
        return self._list_events(_MEASURED_SINCE, {"since_ns": since_ns})

    def list_events(self, run_id: str | None, limit: int, offset: int) -> list[AlertEvent]:
        """Return events of one or all runs, newest first, those that only count left out."""
        parameters = {"run_id": run_id, "limit": limit, "offset": offset}
        return self._list_events(_EVENTS_PAGE, parameters)

    def list_events_of(self, event_ids: Sequence[str]) -> list[AlertEvent]:
        """Return events by their ids, in order."""
        return self._list_events(_EVENTS_OF_IDS, {"ids": list(event_ids)}) if event_ids else []

    def list_silences(self) -> list[Silence]:
        """Return all silences, newest first, also those that are over."""
        return self._pool.select(Silence, _SILENCES)

    def list_user_rules(self) -> list[UserRule]:
        """Return the rules that users made."""
        return [read_rule(row[0]) for row in make_rows(self._pool.query(_RULES))]

    def list_messages(self, since_ns: int) -> list[AlertMessage]:
        """Return what was told since a time, in order."""
        return self._pool.select(AlertMessage, _MESSAGES, {"since_ns": since_ns})

    def list_deliveries(self, since_ns: int) -> list[Delivery]:
        """Return attempts to deliver since a time, in order."""
        return self._pool.select(Delivery, _DELIVERIES, {"since_ns": since_ns})

    def count_samples(
        self, run_id: str, attempt: int, steps: Sequence[Step]
    ) -> Mapping[int, list[ReplicaRow]]:
        """Return the training samples of closed steps of one attempt, by step and replica."""
        closed = [step for step in steps if step.end_ns is not None]
        if not closed:
            return {}
        ends = [step.end_ns or 0 for step in closed]
        parameters = {
            "run_id": run_id,
            "attempt": attempt,
            "unknown": UNKNOWN_STEP,
            "numbers": [UNKNOWN_STEP - 1, *(step.step for step in closed)],
            "starts": [step.start_ns for step in closed],
            "ends": ends,
            "first_ns": min(step.start_ns for step in closed),
            "last_ns": max(ends),
        }
        found: defaultdict[int, list[ReplicaRow]] = defaultdict(list)
        for row in make_rows(self._pool.query(_SAMPLES, parameters)):
            counted = ReplicaRow(*row)
            # The query says -1 where no version is known.
            known = counted.version_max is not None and counted.version_max >= 0
            found[counted.step].append(
                replace(counted, version_max=counted.version_max if known else None)
            )
        return found

    def read_gpu_minute(self, since_ns: int) -> Mapping[str, GpuMinuteRow]:
        """Return the means of every GPU since a time, by its uuid."""
        parameters = {"since_ns": since_ns, "mask": _THROTTLE_MASK}
        rows = make_rows(self._pool.query(_GPU_MINUTE, parameters))
        return {row[0]: GpuMinuteRow(*row) for row in rows}

    def read_gpu_faults(self, since_ns: int) -> Mapping[str, GpuFaultRow]:
        """Return what drivers said of GPUs since a time, by uuid."""
        rows = make_rows(self._pool.query(_GPU_FAULTS, {"since_ns": since_ns}))
        return {row[0]: GpuFaultRow(*row) for row in rows}

    def list_gpu_minutes(self, gpus: Sequence[str], span_ns: tuple[int, int]) -> list[PastGpuRow]:
        """Return what GPUs did in each minute of a span, as far as their samples are kept."""
        if not gpus:
            return []
        parameters = {
            "ids": list(gpus),
            "start_ns": span_ns[0],
            "end_ns": span_ns[1],
            "mask": _THROTTLE_MASK,
        }
        return [PastGpuRow(*row) for row in make_rows(self._pool.query(_GPU_MINUTES, parameters))]

    def list_host_minutes(
        self, hosts: Sequence[str], span_ns: tuple[int, int]
    ) -> list[PastHostRow]:
        """Return when nodes were heard of in each minute of a span."""
        if not hosts:
            return []
        parameters = {"ids": list(hosts), "start_ns": span_ns[0], "end_ns": span_ns[1]}
        return [PastHostRow(*row) for row in make_rows(self._pool.query(_HOST_MINUTES, parameters))]

    def read_agents(self, since_ns: int, hosts: Sequence[str] = ()) -> Mapping[str, AgentRow]:
        """Return what agents said of themselves since a time, by node; of all nodes, or of some."""
        parameters = {"since_ns": since_ns, "hosts": list(hosts)}
        rows = make_rows(self._pool.query(_AGENTS, parameters))
        return {row[0]: AgentRow(*row) for row in rows}

    def list_engine_series(
        self,
        run_id: str,
        attempt: int,
        names: Sequence[str],
        span_ns: tuple[int, int],
        bucket_ns: int,
    ) -> list[EngineSeriesRow]:
        """Return series of the engines of an attempt, labels in braces after their names.

        Args:
            run_id: The run.
            attempt: The attempt.
            names: Series without labels.
            span_ns: First and last time.
            bucket_ns: Of each stretch of this length, the newest value.
        """
        return list_engine_series(self._pool, run_id, attempt, names, span_ns, bucket_ns)

    def list_gpu_memory(
        self, gpus: Sequence[str], span_ns: tuple[int, int], *, in_bins: bool
    ) -> list[MemoryRow]:
        """Return what was taken of the memory of GPUs in a span; bins are of ten seconds."""
        return list_gpu_memory(self._pool, gpus, span_ns, in_bins=in_bins)

    def list_host_memory(self, hosts: Sequence[str], span_ns: tuple[int, int]) -> list[MemoryRow]:
        """Return what was taken of the memory of nodes in a span."""
        return list_host_memory(self._pool, hosts, span_ns)

    def list_hosts(self, since_ns: int) -> Mapping[str, int]:
        """Return the nodes heard of since a time, with the time of their newest sample."""
        rows = make_rows(self._pool.query(_HOSTS, {"since_ns": since_ns}))
        return {row[0]: row[1] for row in rows}

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    def _list_events(self, sql: str, parameters: Mapping[str, object]) -> list[AlertEvent]:
        return [read_event(row) for row in make_records(self._pool.query(sql, parameters))]


def open_alert_reader(store: Store, threads: int = 2) -> AlertReader:
    """Return a reader with connections of its own, so that alerts wait for nobody.

    Close it before the store.
    """
    return AlertReader(ClientPool(store.new_reader_client, threads))
