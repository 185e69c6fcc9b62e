"""What is known of runs and their attempts while data comes in, and when one is another."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from longpole_server.ingest.normalize.sender import CONTROLLER, Process, Sender
from longpole_server.model.records import RunStart

# A controller heard of within this time is alive.
LIVE_NS = 30_000_000_000
# Clocks of hosts differ by less.
CLOCK_MARGIN_NS = 1_000_000_000
# A process that announces its run later than this after its start may be a reused worker: its
# start says nothing about the run's.
_FRESH_PROCESS_NS = 300_000_000_000
_MAX_AHEAD_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class LoopSeen:
    """A step as its `rl.loop` span tells it."""

    step: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Moments:
    """The times in one batch of one sender.

    Attributes:
        received_ns: When the server got it.
        first_ns, last_ns: Earliest and latest sign of life in it (ends of spans, times of points).
        first_loop, last_loop: Steps in it, by time.
        run_start_ns: Time of an `rl.run.start` event in it.
    """

    received_ns: int
    first_ns: int
    last_ns: int
    first_loop: LoopSeen | None = None
    last_loop: LoopSeen | None = None
    run_start_ns: int | None = None

    @classmethod
    def collect(
        cls,
        received_ns: int,
        signs_ns: Iterable[int],
        loops: Sequence[LoopSeen] = (),
        run_start_ns: int | None = None,
    ) -> "Moments":
        """Return the moments of a batch. Times far ahead are a broken clock and are cut to now."""
        limit_ns = received_ns + _MAX_AHEAD_NS
        known_ns = [min(sign_ns, limit_ns) for sign_ns in signs_ns if sign_ns > 0] or [received_ns]
        return cls(
            received_ns=received_ns,
            first_ns=min(known_ns),
            last_ns=max(known_ns),
            first_loop=min(loops, key=lambda loop: loop.start_ns, default=None),
            last_loop=max(loops, key=lambda loop: loop.end_ns, default=None),
            run_start_ns=None if run_start_ns is None else min(run_start_ns, limit_ns),
        )

    @property
    def begun_ns(self) -> int:
        """When what the batch belongs to began, as far as the batch tells."""
        if self.run_start_ns is not None:
            return self.run_start_ns
        if self.first_loop is not None:
            return min(self.first_ns, self.first_loop.start_ns)
        return self.first_ns


@dataclass(frozen=True, slots=True)
class KnownAttempt:
    """An attempt that the store holds, to go on from after a restart.

    Attributes:
        last_seen_ns: Newest time in any of its facts.
        ended_ns: When it said that it ended, None if it did not.
        last_step: Its newest step, where known.
    """

    start: RunStart
    last_seen_ns: int
    ended_ns: int | None = None
    last_step: int | None = None


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt while it goes on. One object per attempt, changed as data comes in.

    Attributes:
        begun_ns: Earliest time known.
        leader: Its controller; None while only others were heard of, or when its pid is unknown.
        led_since_ns: When that controller began.
        leader_seen_ns: When the server last heard of the controller.
        leader_last_ns: The controller's last sign of life, by its own clock.
        step: The step that goes on, or ended last.
        start: The start as announced so far, None before.
    """

    run_id: str
    number: int
    begun_ns: int
    leader: Process | None = None
    led_since_ns: int = 0
    leader_seen_ns: int = 0
    leader_last_ns: int = 0
    ended_ns: int | None = None
    last_loop: LoopSeen | None = None
    step: int | None = None
    start: RunStart | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_imported(self) -> bool:
        """Whether it was read from a log: no process can go on with it."""
        return self.start is not None and self.start.imported

    @property
    def awaits_leader(self) -> bool:
        """Whether only others than its controller were heard of."""
        return self.leader is None and self.step is None and not self.is_imported

    def goes_back(self, loop: LoopSeen | None) -> bool:
        """Tell whether a loop came after the last one and does not go on from it."""
        last = self.last_loop
        return (
            loop is not None
            and last is not None
            and loop.start_ns >= last.end_ns
            and loop.step <= last.step
        )

    def starts_again(self, moments: Moments) -> bool:
        """Tell whether the same process announces a run after it ended this one."""
        return (
            self.ended_ns is not None
            and moments.run_start_ns is not None
            and moments.run_start_ns > self.ended_ns
        )

    def is_live(self, received_ns: int) -> bool:
        """Tell whether its controller is alive as far as the server knows."""
        return self.ended_ns is None and received_ns - self.leader_seen_ns <= LIVE_NS

    def overlaps(self, sender: Sender, moments: Moments) -> bool:
        """Tell whether its controller was still at work after another one had begun."""
        leader = self.leader
        if leader is None or leader == sender.process or not self.is_live(moments.received_ns):
            return False
        begun_ns = moments.begun_ns
        started_ns = None if sender.process is None else sender.process.start_ns
        if started_ns is not None and 0 <= begun_ns - started_ns <= _FRESH_PROCESS_NS:
            begun_ns = started_ns
        elif sender.role != CONTROLLER:
            # Ranks that all send loops begin about together; only the iteration tells a restart.
            return not self.goes_back(moments.first_loop)
        margin_ns = 0 if leader.host == sender.host else CLOCK_MARGIN_NS
        return self.leader_last_ns > begun_ns + margin_ns

    def note_signs(self, moments: Moments) -> None:
        """Remember what a batch of its controller tells."""
        self.leader_seen_ns = max(self.leader_seen_ns, moments.received_ns)
        self.leader_last_ns = max(self.leader_last_ns, moments.last_ns)
        last = self.last_loop
        loop = moments.last_loop
        if loop is not None and (last is None or loop.end_ns > last.end_ns):
            self.last_loop = loop
            self.note_step(loop.step)

    def note_step(self, step: int) -> None:
        """Remember that a step goes on."""
        if self.step is None or step > self.step:
            self.step = step


@dataclass(slots=True, eq=False)
class Run:
    """A run with its attempts by number, at least one.

    Attributes:
        base_id: The id its controller declares; another one than `run_id` after a collision.
    """

    run_id: str
    base_id: str
    attempts: list[Attempt]
    notes: tuple[str, ...] = field(default=())

    @property
    def newest(self) -> Attempt:
        """The attempt with the highest number."""
        return self.attempts[-1]

    def find(self, number: int) -> Attempt | None:
        """Return the attempt with a number, or None."""
        return next((attempt for attempt in self.attempts if attempt.number == number), None)

    def add(self, number: int, begun_ns: int) -> Attempt:
        """Begin the attempt with a number that is not taken."""
        attempt = Attempt(self.run_id, number, begun_ns, notes=self.notes)
        self.attempts.append(attempt)
        self.attempts.sort(key=lambda attempt: attempt.number)
        return attempt

    def add_next(self, begun_ns: int) -> Attempt:
        """Begin another attempt."""
        return self.add(self.newest.number + 1, begun_ns)

    def is_led_from(self, host: str) -> bool:
        """Tell whether its controller runs on a host."""
        leader = self.newest.leader
        return leader is not None and leader.host == host
