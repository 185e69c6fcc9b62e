"""Runs: one training under one id, with its attempts. Names and units are those of the API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from longpole_server.model.step import Confidence, Note

RunState = Literal["live", "stalled", "finished", "crashed", "lost", "imported"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a closed step went, and when it ended (UTC nanoseconds)."""

    throughput_tokens_per_s_per_gpu: float | None
    end_ns: int | None


@dataclass(frozen=True, slots=True)
class OpenStage:
    """What the controller is in right now, from `rl.stage.start` and its heartbeats.

    Attributes:
        stage: Canonical stage, or `step` when no stage is open inside the step.
        since_ns: When the window opened.
        seen_ns: Last heartbeat.
        usual_s: Median of this stage's seconds in earlier steps, None without any.
        usual_max_s: Longest of them.
        step_since_ns: When the step itself opened, None if unknown.
    """

    step: int | None
    stage: str
    since_ns: int
    seen_ns: int
    usual_s: float | None = None
    usual_max_s: float | None = None
    step_since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of a run.

    Attributes:
        ended_ns: When it ended, None while it goes on or when nobody knows.
        status: As its end was reported: `finished`, `crashed`, ...; `superseded` when it never
            said that it ended and a later attempt followed: then `ended_ns` is the later one's
            start, or its own last sign of life where that came before.
    """

    attempt: int
    started_ns: int
    ended_ns: int | None
    status: str | None
    first_step: int | None
    last_step: int | None
    num_steps: int


@dataclass(frozen=True, slots=True)
class Source:
    """Who reports on a run: a process, an importer, an agent. `kind` names which."""

    kind: str
    host: str | None
    pid: int | None
    role: str | None
    last_seen_ns: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run as it stands in a list.

    Attributes:
        num_steps: Steps begun so far, the open one among them, as in `last_step`; those of a
            repeated number count once.
        open_alerts: Alerts that are open; None while nothing watches for any.
    """

    run_id: str
    name: str
    project: str | None
    system: str | None
    system_version: str | None
    algorithm: str | None
    mode: str | None
    mode_source: Literal["declared", "inferred"] | None
    state: RunState
    attempt: int
    started_ns: int
    last_seen_ns: int
    first_step: int | None
    last_step: int | None
    num_steps: int
    gpu_count: int | None
    step_duration_s: float | None
    throughput_tokens_per_s_per_gpu: float | None
    mfu_step: float | None
    staleness_max: float | None
    verdict: str | None
    confidence: Confidence | None
    open_alerts: int | None
    open_stage: OpenStage | None
    time_estimated: bool = False


@dataclass(frozen=True, slots=True)
class RunDetail:
    """A run with everything that is known about it beside its steps."""

    summary: RunSummary
    model_name: str | None
    model_config: str | None
    staleness_bound: float | None
    staleness_basis: str | None
    config: Mapping[str, str]
    attempts: tuple[Attempt, ...]
    sources: tuple[Source, ...]
    notes: tuple[Note, ...] = ()
