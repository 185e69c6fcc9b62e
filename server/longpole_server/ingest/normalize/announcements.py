"""`RunStart` when a run begins or more becomes known of it, `ProcessSeen` now and then."""

import dataclasses

from longpole.conventions import attributes as names
from longpole_server.ingest.normalize.attempts import Attempt, Moments
from longpole_server.ingest.normalize.attributes import (
    Values,
    format_value,
    get_float,
    get_int,
    get_text,
)
from longpole_server.ingest.normalize.sender import Process, Sender
from longpole_server.model.records import ProcessSeen, Records, RunStart

_SIGHTING_INTERVAL_NS = 10_000_000_000
_MAX_SIGHTINGS = 16_384


class Announcer:
    """Says once, and again when it changes, what run an attempt is and who takes part."""

    def __init__(self) -> None:
        # When each process was said to be seen, oldest first.
        self._sightings: dict[tuple[str, int, str, int, str, str], int] = {}

    def announce_run(
        self, attempt: Attempt, sender: Sender, moments: Moments, into: Records, *, is_leader: bool
    ) -> None:
        """Announce an attempt that data alone tells of, or its controller."""
        leader = sender.process if is_leader else None
        known = attempt.start
        if known is not None and (leader is None or (known.host, known.pid) == leader[:2]):
            return
        started_ns = attempt.begun_ns if known is None else min(known.started_ns, moments.begun_ns)
        self._announce(attempt, _describe(attempt, sender, sender.values, started_ns, leader), into)

    def announce_start(
        self, attempt: Attempt, sender: Sender, values: Values, time_ns: int, into: Records
    ) -> None:
        """Announce an attempt from its `rl.run.start`; `values` are the event's attributes."""
        start = _describe(
            attempt, sender, {**sender.values, **values}, time_ns, sender.process, declared=True
        )
        self._announce(attempt, start, into)

    def see_process(
        self,
        attempt: Attempt,
        sender: Sender,
        scope: str,
        moments: Moments,
        into: Records,
        *,
        is_last: bool = False,
    ) -> None:
        """Say that a process takes part: at once, then every 10 s at most, and when it ends.

        `is_last` says that the process tells of its end.
        """
        key = (
            attempt.run_id,
            attempt.number,
            sender.host,
            sender.pid,
            sender.role,
            sender.instance or "",
        )
        seen_ns = self._sightings.get(key)
        is_recent = seen_ns is not None and moments.received_ns - seen_ns < _SIGHTING_INTERVAL_NS
        if is_recent and not is_last:
            return
        self._sightings.pop(key, None)
        if len(self._sightings) >= _MAX_SIGHTINGS:
            del self._sightings[next(iter(self._sightings))]
        self._sightings[key] = moments.received_ns
        into.processes.append(
            ProcessSeen(
                run_id=attempt.run_id,
                attempt=attempt.number,
                host=sender.host,
                pid=sender.pid,
                role=sender.role,
                seen_ns=moments.last_ns,
                gpu_ids=sender.gpu_ids,
                instance=sender.instance,
                service=sender.service or None,
                scope=scope or None,
                **sender.owner._asdict(),
            )
        )

    def _announce(self, attempt: Attempt, start: RunStart, into: Records) -> None:
        if attempt.start is not None:
            start = _merge(attempt.start, start)
        if start != attempt.start:
            attempt.start = start
            into.run_starts.append(start)


def _describe(
    attempt: Attempt,
    sender: Sender,
    values: Values,
    started_ns: int,
    leader: Process | None,
    *,
    declared: bool = False,
) -> RunStart:
    return RunStart(
        run_id=attempt.run_id,
        attempt=attempt.number,
        started_ns=started_ns,
        name=get_text(values, names.RUN_NAME) or get_text(values, names.LEGACY_EXPERIMENT),
        project=get_text(values, names.PROJECT) or get_text(values, names.LEGACY_PROJECT),
        system=get_text(values, names.SYSTEM),
        system_version=get_text(values, names.SYSTEM_VERSION),
        algorithm=get_text(values, names.ALGORITHM),
        mode=get_text(values, names.MODE),
        model_name=get_text(values, names.MODEL_NAME),
        model_config=get_text(values, names.MODEL_CONFIG),
        gpu_count=get_int(values, names.GPU_COUNT),
        staleness_bound=get_float(values, names.STALENESS_BOUND),
        staleness_basis=get_text(values, names.STALENESS_BASIS),
        host=None if leader is None else leader.host,
        pid=None if leader is None else leader.pid,
        process_start_ns=None if leader is None else leader.start_ns,
        config={
            key.removeprefix(names.CONFIG_PREFIX): format_value(value)
            for key, value in values.items()
            if key.startswith(names.CONFIG_PREFIX)
        },
        declared=declared,
        notes=(*sender.notes, *attempt.notes),
    )


def _merge(known: RunStart, new: RunStart) -> RunStart:
    """Return what both tell: the newer value where it has one."""
    changes = {
        field.name: value
        for field in dataclasses.fields(RunStart)
        if (value := getattr(new, field.name)) not in (None, (), {})
    }
    changes["declared"] = known.declared or new.declared
    changes["config"] = {**known.config, **new.config}
    # An announced time is exact, one from data only a bound.
    if known.declared:
        earliest_ns = min(known.started_ns, new.started_ns)
        changes["started_ns"] = earliest_ns if new.declared else known.started_ns
    return dataclasses.replace(known, **changes)
