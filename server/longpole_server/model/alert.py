"""Alerts: their events, their state, silences, rules as people read them. Names are the API's.

An alert is what became of one rule on one entity from the moment it was noticed until it is over.
Everything that happens to it is an event; the state is what the events add up to.
"""

from dataclasses import dataclass
from typing import Literal

from longpole_server.model.diagnosis import Entity
from longpole_server.model.step import Severity

AlertPhase = Literal["pending", "firing", "resolved"]
# `dropped`: a pending alert whose cause went away in time. `seen`: a firing one is still there.
# `repeated`: the same, and worth telling again.
EventKind = Literal["pending", "dropped", "firing", "seen", "repeated", "resolved", "acknowledged"]
RuleKind = Literal["trend", "fault"]
Trigger = Literal["step", "time"]
Comparison = Literal["above", "below"]
InputState = Literal["firing", "pending", "quiet", "not_judgeable"]
# Begins the reason of a rule that was held back at a step: it is quiet without a judgement.
HELD_BACK = "not judged: "
# Figures of a step that rules read beside logged scalars and canonical metrics.
STEP_FIGURES = (
    "step_duration_s",
    "throughput_tokens_per_s_per_gpu",
    "tokens_total",
    "mfu_actor",
    "mfu_infer",
    "mfu_step",
    "unattributed_s",
    "engines/running",
)


@dataclass(frozen=True, slots=True)
class AlertEvidence:
    """One number that an alert stands on."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class AlertEvent:
    """One transition of one alert, with everything known of the alert at that moment.

    Attributes:
        event_id: The same transition has the same id, however often it is decided.
        ts_ns: Time of the data that caused it.
        decided_ns: When it was decided.
        run_id: Empty where the alert belongs to no run.
        started_ns, started_step: When the condition was first met.
        fired_ns: When it began to fire, None before.
        count: How often it was found firing so far; before it fires, in how many looks its
            condition was met.
        notify: Whether people are to be told.
        silence_id: The silence that keeps it from them, else empty.
        author, comment: Who acknowledged it and with what words; why it ended.
    """

    event_id: str
    alert_id: str
    kind: EventKind
    ts_ns: int
    decided_ns: int
    rule: str
    severity: Severity
    run_id: str
    run_name: str
    project: str
    entity_kind: str
    entity_id: str
    started_ns: int
    started_step: int | None
    fired_ns: int | None
    step: int | None
    count: int
    value: float | None
    threshold: float | None
    baseline: float | None
    unit: str
    summary: str
    cause: str
    first_look: str
    evidence: tuple[AlertEvidence, ...] = ()
    notify: bool = False
    silence_id: str = ""
    author: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Somebody looks after it."""

    author: str
    ts_ns: int
    comment: str


@dataclass(frozen=True, slots=True)
class Alert:
    """What the events of one alert add up to.

    Attributes:
        run_id: None where it belongs to no run.
        first_step, last_step: Steps at which the condition was first and last met.
        link: Address of the page that shows it, below the dashboard's root.
        silence_id: The silence that its last event fell under, None without one.
        notified_ns: Time of the last event that people were to be told of, None before any.
        updated_ns: Time of the newest data that was judged for an event.
    """

    alert_id: str
    rule: str
    severity: Severity
    state: AlertPhase
    run_id: str | None
    run_name: str | None
    project: str | None
    entity: Entity
    started_ns: int
    fired_ns: int | None
    last_seen_ns: int
    resolved_ns: int | None
    first_step: int | None
    last_step: int | None
    count: int
    value: float | None
    threshold: float | None
    baseline: float | None
    unit: str
    summary: str
    cause: str
    first_look: str
    link: str
    evidence: tuple[AlertEvidence, ...]
    acknowledged: Acknowledgement | None
    silence_id: str | None
    notified_ns: int | None
    updated_ns: int


@dataclass(frozen=True, slots=True)
class Silence:
    """Nobody is told of alerts that match, until it ends. None matches everything.

    Attributes:
        rule: Id of a rule, or its first part (`gpu` for `gpu.lost`, `gpu.idle`, ...).
        entity: Id of an entity: a GPU, a host, a replica.
    """

    silence_id: str
    rule: str | None
    run_id: str | None
    entity: str | None
    author: str
    comment: str
    created_ns: int
    ends_ns: int


@dataclass(frozen=True, slots=True)
class RuleInput:
    """What a rule saw last on one entity.

    Attributes:
        quiet_because: Why it does not fire, None while it does.
    """

    run_id: str | None
    entity: Entity
    state: InputState
    step: int | None
    ts_ns: int
    value: float | None
    threshold: float | None
    baseline: float | None
    unit: str
    quiet_because: str | None

    @property
    def is_held_back(self) -> bool:
        """Whether it is quiet because it was not judged, whatever it saw."""
        return self.state == "quiet" and (self.quiet_because or "").startswith(HELD_BACK)


@dataclass(frozen=True, slots=True)
class RuleStatus:
    """A rule with what it saw last.

    Attributes:
        kind: `trend` rules are not judged while a run warms up; faults always are.
        reads: Names of what it looks at.
        condition: When it fires, in words.
        for_steps, for_s: How long the condition must hold.
        cooldown_s: After it ended it does not fire again for so long.
        repeat_s: While it fires, people are told again after so long.
        quiet_because: Why it fires nowhere, None while it does.
        inputs: The most telling ones first; `num_inputs` counts all.
        metric, comparison, run: Of rules that users made.
    """

    rule_id: str
    title: str
    kind: RuleKind
    severity: Severity
    entity_kind: str
    reads: tuple[str, ...]
    condition: str
    fire_threshold: float | None
    clear_threshold: float | None
    unit: str
    for_steps: int
    for_s: float
    cooldown_s: float
    repeat_s: float
    summary: str
    cause: str
    first_look: str
    built_in: bool
    quiet_because: str | None
    inputs: tuple[RuleInput, ...]
    num_inputs: int
    metric: str | None = None
    comparison: Comparison | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True)
class UserRule:
    """A threshold on any metric, as a user saved it.

    Attributes:
        metric: A logged scalar, a canonical metric, or a figure of a step.
        run: Runs it is for, with `*` for any letters; None is every run.
        clear_threshold: On the other side of `threshold`; equal to it means no hysteresis.
    """

    rule_id: str
    title: str
    metric: str
    comparison: Comparison
    threshold: float
    clear_threshold: float
    for_steps: int
    severity: Severity
    cooldown_s: float
    run: str | None
    author: str


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """A channel and how its last delivery went. Never a secret.

    Attributes:
        kind: `slack_webhook`, `slack_bot`, or the service's name behind apprise.
        num_waiting: Messages not delivered yet.
        num_failed: Messages given up, since the store was made.
        last_delivered_ns: None before the first.
        last_error, last_error_ns: What went wrong last, None when nothing did since a delivery.
    """

    channel: str
    kind: str
    num_waiting: int
    num_delivered: int
    num_failed: int
    last_delivered_ns: int | None
    last_error: str | None
    last_error_ns: int | None


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """Events that people are told together. Frozen before it is sent, so that it keeps its id.

    Attributes:
        run_id: Empty where the events belong to no run.
        channels: Those that are to have it.
    """

    message_id: str
    run_id: str
    event_ids: tuple[str, ...]
    channels: tuple[str, ...]
    created_ns: int


DeliveryOutcome = Literal["delivered", "retry", "failed"]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt to deliver a message to a channel.

    Attributes:
        attempt: 1 for the first.
        outcome: `retry` when it is tried again at `next_ns`, `failed` when it is given up.
        error: What went wrong, without secrets; empty when nothing did.
        remote_id: What the channel calls the message, empty where it does not say.
    """

    message_id: str
    channel: str
    attempt: int
    outcome: DeliveryOutcome
    error: str
    remote_id: str
    ts_ns: int
    next_ns: int | None = None
