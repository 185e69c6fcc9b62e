"""Spans of RL-Insight's client: states of ranks and replicas, and agent-loop sessions.

Agents tell alike what the titles of Ray's workers hint at (`ray_titles`).

All trainings call themselves alike. A span belongs to the run that it names, else to the run of its
sender's job; one without either stays in the raw spans alone, rather than in a wrong run.
"""

from collections.abc import Mapping
from functools import partial

from longpole.conventions import attributes as names
from longpole.conventions import ray_titles, rl_insight, stages
from longpole_server.ingest.normalize.attempt_book import AttemptBook
from longpole_server.ingest.normalize.attempts import Moments
from longpole_server.ingest.normalize.attributes import Values, get_int, get_text
from longpole_server.ingest.normalize.identity import find_run_id, make_addressable
from longpole_server.ingest.normalize.jobs import ROLLOUT, JobBook
from longpole_server.ingest.normalize.lanes import WORKER, LanePlacer
from longpole_server.ingest.normalize.sender import Sender
from longpole_server.ingest.normalize.spans import SpanFact, get_iteration
from longpole_server.model.records import UNKNOWN_STEP, Records, StageSpan, TrajectoryRecord

_PROCESS_ID = "process_id"
_GENERATE_SUFFIX = "_generate"
_STATUSES: Mapping[str, str] = {
    "success": "success",
    "finished": "success",
    "completed": "success",
    "ok": "success",
    "failed": "error",
    "failure": "error",
    "error": "error",
    "aborted": "aborted",
    "cancelled": "aborted",
}


class MonitorSpanReader:
    """Adds the records of RL-Insight's spans."""

    def __init__(self, jobs: JobBook, lanes: LanePlacer, book: AttemptBook) -> None:
        self._jobs = jobs
        self._lanes = lanes
        self._book = book

    def add(self, fact: SpanFact, sender: Sender, received_ns: int, into: Records) -> None:
        """Add one span, or keep it until its run is known."""
        named = find_run_id(fact.values)
        run_id = make_addressable(named) if named is not None else None
        known = self._jobs.find(sender.job)
        if run_id is not None and known is None:
            self._jobs.learn(sender.job, run_id, into)
        if known is not None and (run_id is None or known.startswith(f"{run_id}#")):
            run_id = known
        if run_id is not None:
            self._place(fact, sender, run_id, received_ns, into)
        else:
            self._jobs.wait(sender.job, 1, partial(self._place_late, fact, sender, received_ns))

    def _place_late(self, fact: SpanFact, sender: Sender, received_ns: int, into: Records) -> None:
        run_id = self._jobs.find(sender.job)
        if run_id is not None:
            self._place(fact, sender, run_id, received_ns, into)

    def _place(
        self, fact: SpanFact, sender: Sender, run_id: str, received_ns: int, into: Records
    ) -> None:
        follower = self._jobs.adopt(sender, run_id, _find_role(fact.values))
        moments = Moments.collect(received_ns, [fact.end_ns])
        attempt = self._book.place(follower, moments)
        if fact.raw.name == rl_insight.SPAN_SESSION:
            into.trajectories.append(_make_session(fact, attempt.run_id, attempt.number, sender))
        else:
            self._lanes.add(_make_lane(fact, attempt.run_id, attempt.number, follower), into)


def is_monitor_span(name: str, values: Values) -> bool:
    """Tell whether RL-Insight's client made a span."""
    return rl_insight.LANE in values or (
        name == rl_insight.SPAN_SESSION and rl_insight.SOURCE in values
    )


def _find_role(values: Values) -> str:
    lane = get_text(values, rl_insight.LANE) or ""
    if lane.startswith(rl_insight.REPLICA_LANE_PREFIX):
        return ROLLOUT
    is_worker = lane.startswith((rl_insight.RANK_LANE_PREFIX, ray_titles.LANE_PREFIX))
    return WORKER if is_worker else "agent_loop"


def _make_lane(fact: SpanFact, run_id: str, attempt: int, sender: Sender) -> StageSpan:
    raw, values = fact.raw, fact.values
    state = get_text(values, rl_insight.STATE) or raw.name
    return StageSpan(
        run_id=run_id,
        attempt=attempt,
        step=UNKNOWN_STEP,
        stage=_name_stage(state),
        name=state,
        start_ns=raw.ts_ns,
        end_ns=fact.end_ns,
        trace_id=raw.trace_id,
        span_id=raw.span_id,
        role=sender.role,
        host=sender.host,
        pid=get_int(values, _PROCESS_ID) or 0,
    )


def _name_stage(state: str) -> str:
    if ray_titles.is_title(state):
        return ray_titles.stage_of_title(state) or state
    if state.endswith(_GENERATE_SUFFIX):
        return stages.GEN
    return stages.stage_of(state) or state


def _make_session(fact: SpanFact, run_id: str, attempt: int, sender: Sender) -> TrajectoryRecord:
    raw, values = fact.raw, fact.values
    iteration = get_iteration(values)
    lane = get_text(values, rl_insight.LANE) or raw.span_id
    # A lane's name is used again by the next step's sample of the same place.
    trajectory_id = get_text(values, "session_id") or f"{iteration}/{lane}"
    status = (get_text(values, "status") or "").lower()
    return TrajectoryRecord(
        run_id=run_id,
        attempt=attempt,
        step=UNKNOWN_STEP if iteration is None else iteration,
        trajectory_id=trajectory_id,
        start_ns=raw.ts_ns,
        end_ns=fact.end_ns,
        group_id=get_text(values, "uid") or get_text(values, "sample"),
        status=_STATUSES.get(status),
        reward=None,
        host=sender.host or None,
        trace_id=raw.trace_id,
        span_id=raw.span_id,
        turns=get_int(values, names.TRAJECTORY_TURNS),
    )
