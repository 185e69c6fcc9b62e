"""What a batch of records touches: which steps must be assembled, which runs have changed."""

from dataclasses import dataclass, field

from longpole_server.model.records import Records

# An announcement this young opens a window; an older one is a heartbeat of it.
_OPENING_NS = 2_000_000_000


@dataclass(frozen=True, slots=True, order=True)
class AttemptKey:
    """One attempt of one run."""

    run_id: str
    attempt: int


@dataclass(frozen=True, slots=True, order=True)
class StepKey:
    """One step of one attempt of one run."""

    run_id: str
    attempt: int
    step: int

    @property
    def owner(self) -> AttemptKey:
        """The attempt it belongs to."""
        return AttemptKey(self.run_id, self.attempt)


@dataclass(slots=True)
class Touched:
    """What a batch touches.

    Attributes:
        windows: Steps that got a window or a scalar: their ledger changes.
        samples: Steps that got training samples.
        loose_ends_ns: Ends of samples whose step is not known, by attempt.
        announced_ns: Steps whose opening was announced, with the earliest start named.
        runs: Runs whose description or end changed.
        joined: Runs that hold other GPUs than before.
        opened: Whether a window was opened just now.
        pulse: Whether anything came in at all: GPU samples, heartbeats, samples, ...
    """

    windows: set[StepKey] = field(default_factory=set[StepKey])
    samples: set[StepKey] = field(default_factory=set[StepKey])
    loose_ends_ns: dict[AttemptKey, list[int]] = field(default_factory=dict[AttemptKey, list[int]])
    announced_ns: dict[StepKey, int] = field(default_factory=dict[StepKey, int])
    runs: set[str] = field(default_factory=set[str])
    joined: set[str] = field(default_factory=set[str])
    opened: bool = False
    pulse: bool = False

    def __bool__(self) -> bool:
        """Tell whether anything is touched at all."""
        return self.pulse

    def merge(self, other: "Touched") -> None:
        """Add what another batch touches."""
        self.windows |= other.windows
        self.samples |= other.samples
        for owner, ends_ns in other.loose_ends_ns.items():
            self.loose_ends_ns.setdefault(owner, []).extend(ends_ns)
        for key, start_ns in other.announced_ns.items():
            self.announced_ns[key] = min(start_ns, self.announced_ns.get(key, start_ns))
        self.runs |= other.runs
        self.joined |= other.joined
        self.opened |= other.opened
        self.pulse |= other.pulse


def find_touched(records: Records) -> Touched:
    """Return what a batch touches."""
    touched = Touched(pulse=len(records) > 0)
    for record in (*records.stage_spans, *records.metric_points):
        if record.step >= 0:
            touched.windows.add(StepKey(record.run_id, record.attempt, record.step))
    for sample in records.trajectories:
        if sample.step >= 0:
            touched.samples.add(StepKey(sample.run_id, sample.attempt, sample.step))
        else:
            owner = AttemptKey(sample.run_id, sample.attempt)
            touched.loose_ends_ns.setdefault(owner, []).append(sample.end_ns)
    for block in records.blocks:
        touched.samples.update(StepKey(*key) for key in block.steps)
        for key, ends_ns in block.loose_ends_ns.items():
            touched.loose_ends_ns.setdefault(AttemptKey(*key), []).extend(ends_ns)
    for start in records.stage_starts:
        touched.opened |= start.seen_ns - start.start_ns < _OPENING_NS
        if start.step >= 0:
            key = StepKey(start.run_id, start.attempt, start.step)
            touched.announced_ns[key] = min(
                start.start_ns, touched.announced_ns.get(key, start.start_ns)
            )
    touched.runs.update(record.run_id for record in (*records.run_starts, *records.run_ends))
    return touched
