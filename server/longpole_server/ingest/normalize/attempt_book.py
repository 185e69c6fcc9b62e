"""Which run and which attempt a batch belongs to.

A run is led by its controller: the process with role `controller`, or one that sends `rl.loop`
spans. Everybody else follows it by time.

- A declared attempt (`rl.run.attempt`) holds.
- Otherwise another controller (host, pid, process start) means another attempt. Late data of an
  earlier controller stays with its own attempt. Where pid or start are unknown, the iteration
  decides: a loop that begins after the last one ended and does not go on from it is a new attempt.
- Two controllers of one id that are both alive are two runs: the second becomes `<id>#2`. Alive
  means heard of within 30 s, and still sending after the other one began.
"""

import itertools
import re
from collections.abc import Iterable, Iterator

from longpole_server.ingest.normalize.attempts import (
    CLOCK_MARGIN_NS,
    Attempt,
    KnownAttempt,
    LoopSeen,
    Moments,
    Run,
)
from longpole_server.ingest.normalize.sender import CONTROLLER, Process, Sender
from longpole_server.model.records import RunStart

_COLLISION_NOTE = "Another live controller used the run id"
_QUIET_NS = 900_000_000_000
_COLLIDED_ID = re.compile(r"(?P<base>.+)#\d+", re.DOTALL)


class AttemptBook:
    """Places batches. Keeps one small object for each attempt ever seen. Not thread-safe.

    Args:
        known: The attempts in the store.
    """

    def __init__(self, known: Iterable[KnownAttempt] = ()) -> None:
        self._runs: dict[str, Run] = {}
        self._led: dict[tuple[str, Process], Attempt] = {}
        for attempt in known:
            self._restore(attempt)

    def place(self, sender: Sender, moments: Moments) -> Attempt:
        """Return the attempt that a batch belongs to, and remember what the batch tells."""
        if not self._leads(sender, moments):
            attempt = self._follow(sender, moments.last_ns)
        elif sender.process is None:
            attempt = self._place_by_iteration(sender, moments)
        else:
            attempt = self._place_by_process(sender, sender.process, moments)
        if attempt.leader == sender.process:
            attempt.note_signs(moments)
        return attempt

    def is_leader(self, sender: Sender, attempt: Attempt) -> bool:
        """Tell whether the sender speaks for the attempt: it is its controller, or may be."""
        if attempt.leader is None:
            return sender.role in {"", CONTROLLER}
        return attempt.leader == sender.process

    def has_controller(self, run_id: str, received_ns: int) -> bool:
        """Tell whether a process of its own leads a run now, not a monitor."""
        run = self._runs.get(run_id)
        if run is None:
            return False
        leader = run.newest.leader
        # Process 0 stands for a monitor.
        return leader is not None and leader.pid != 0 and run.newest.is_live(received_ns)

    def find_lone_run(self, host: str, received_ns: int) -> str | None:
        """Return the only run that is led from a host and alive, None if there are several.

        Pages tell of their run once a step, so a run that was silent for minutes will do where no
        other speaks.
        """
        led = [run for run in self._runs.values() if run.is_led_from(host)]
        alive = [run for run in led if run.newest.is_live(received_ns)]
        if not alive:
            since_ns = received_ns - _QUIET_NS
            alive = [
                run
                for run in led
                if run.newest.ended_ns is None and run.newest.leader_seen_ns >= since_ns
            ]
        return alive[0].run_id if len(alive) == 1 else None

    def _leads(self, sender: Sender, moments: Moments) -> bool:
        if sender.role == CONTROLLER or moments.first_loop is not None:
            return True
        return sender.process is not None and (sender.run_id, sender.process) in self._led

    def _follow(self, sender: Sender, last_ns: int) -> Attempt:
        """Place someone who does not lead: by host where ids collide, then by time."""
        same_host = [run for run in self._family(sender.run_id) if run.is_led_from(sender.host)]
        if len(same_host) == 1:
            run = same_host[0]
        else:
            run = self._get_run(sender.run_id, sender.attempt or 1, last_ns)
        if sender.attempt is not None:
            return run.find(sender.attempt) or run.add(sender.attempt, last_ns)
        begun = [attempt for attempt in run.attempts if attempt.begun_ns <= last_ns]
        return begun[-1] if begun else run.attempts[0]

    def _place_by_iteration(self, sender: Sender, moments: Moments) -> Attempt:
        run = self._get_run(sender.run_id, sender.attempt or 1, moments.begun_ns)
        if sender.attempt is not None:
            return run.find(sender.attempt) or run.add(sender.attempt, moments.begun_ns)
        if run.newest.is_imported or run.newest.goes_back(moments.first_loop):
            return run.add_next(moments.begun_ns)
        return run.newest

    def _place_by_process(self, sender: Sender, process: Process, moments: Moments) -> Attempt:
        known = attempt = self._led.get((sender.run_id, process))
        is_declared = sender.attempt is not None
        is_strong = sender.role == CONTROLLER
        if attempt is None or (is_declared and attempt.number != sender.attempt):
            attempt = self._begin_attempt(sender, moments)
        elif is_strong and self._is_overtaken(attempt, process, moments):
            attempt = self._split(attempt, sender, moments)
        elif not is_declared and _begins_anew(attempt, process, moments):
            attempt = self._runs[attempt.run_id].add_next(moments.begun_ns)
        # A process beside the controller that sends loops of its own is a lane of its attempt.
        takes_over = is_strong or (known is None and not attempt.is_live(moments.received_ns))
        if attempt.leader is None or (takes_over and attempt.leader != process):
            attempt.leader, attempt.led_since_ns = process, moments.begun_ns
        self._led[sender.run_id, process] = attempt
        return attempt

    def _begin_attempt(self, sender: Sender, moments: Moments) -> Attempt:
        """Place a controller that was not heard of before, or declares another attempt."""
        number = sender.attempt
        free: list[Run] = []
        for run in self._family(sender.run_id):
            if not run.newest.overlaps(sender, moments):
                free.append(run)
            elif sender.role != CONTROLLER:
                return run.newest
        if not free:
            return self._add_run(sender.run_id, number or 1, moments.begun_ns)
        run = max(free, key=lambda run: run.newest.leader_seen_ns)
        if number is not None:
            return run.find(number) or run.add(number, moments.begun_ns)
        return run.newest if run.newest.awaits_leader else run.add_next(moments.begun_ns)

    def _is_overtaken(self, attempt: Attempt, process: Process, moments: Moments) -> bool:
        """Tell whether this controller goes on although another one took its run over."""
        newest = self._runs[attempt.run_id].newest
        return (
            newest.leader not in {None, process}
            and attempt.ended_ns is None
            and newest.is_live(moments.received_ns)
            and moments.last_ns > newest.led_since_ns + CLOCK_MARGIN_NS
        )

    def _split(self, attempt: Attempt, sender: Sender, moments: Moments) -> Attempt:
        """Give the second controller a run of its own; the first goes on in a new attempt.

        What the second one sent so far stays behind in the first one's run. A declared attempt
        stays as it is.
        """
        run = self._runs[attempt.run_id]
        second = run.newest
        moved = self._add_run(
            sender.run_id, 1 if sender.attempt is None else second.number, second.led_since_ns
        )
        moved.leader, moved.led_since_ns = second.leader, second.led_since_ns
        moved.leader_seen_ns, moved.leader_last_ns = second.leader_seen_ns, second.leader_last_ns
        moved.step, moved.last_loop = second.step, second.last_loop
        if second.leader is not None:
            self._led[sender.run_id, second.leader] = moved
        if sender.attempt is not None:
            return attempt
        following = run.add_next(moments.begun_ns)
        following.notes = (_describe_split(attempt, second, moved),)
        return following

    def _family(self, run_id: str) -> Iterator[Run]:
        """Iterate over the run and those that collided with its id."""
        for number in itertools.count(1):
            run = self._runs.get(_name(run_id, number))
            if run is None:
                return
            if run.base_id == run_id:
                yield run

    def _get_run(self, run_id: str, number: int, begun_ns: int) -> Run:
        run = self._runs.get(run_id)
        if run is None:
            run = Run(run_id, run_id, [Attempt(run_id, number, begun_ns)])
            self._runs[run_id] = run
        return run

    def _add_run(self, base_id: str, number: int, begun_ns: int) -> Attempt:
        """Begin a run under the first name of the family that is free."""
        names = (_name(base_id, number) for number in itertools.count(1))
        run_id = next(name for name in names if name not in self._runs)
        notes = ()
        if run_id != base_id:
            notes = (f"{_COLLISION_NOTE} {base_id!r} at the same time; this is {run_id!r}.",)
        attempt = Attempt(run_id, number, begun_ns, notes=notes)
        self._runs[run_id] = Run(run_id, base_id, [attempt], notes)
        return attempt

    def _restore(self, known: KnownAttempt) -> None:
        start = known.start
        notes = tuple(note for note in start.notes if note.startswith(_COLLISION_NOTE))
        base_id = find_base_id(start)
        attempt = Attempt(start.run_id, start.attempt, start.started_ns, notes=start.notes)
        attempt.start = start
        attempt.ended_ns = known.ended_ns
        attempt.leader_seen_ns = attempt.leader_last_ns = known.last_seen_ns
        if known.last_step is not None:
            attempt.step = known.last_step
            attempt.last_loop = LoopSeen(known.last_step, known.last_seen_ns, known.last_seen_ns)
        run = self._runs.setdefault(start.run_id, Run(start.run_id, base_id, [], notes))
        run.attempts.append(attempt)
        run.attempts.sort(key=lambda attempt: attempt.number)
        if start.host is not None and start.pid is not None:
            attempt.leader = Process(start.host, start.pid, start.process_start_ns)
            attempt.led_since_ns = start.started_ns
            self._led[base_id, attempt.leader] = attempt


def find_base_id(start: RunStart) -> str:
    """Return the id that the controller of an attempt declares: after a collision not the run's."""
    collided = _COLLIDED_ID.fullmatch(start.run_id)
    if collided is None or not any(note.startswith(_COLLISION_NOTE) for note in start.notes):
        return start.run_id
    return collided["base"]


def is_like_collided(run_id: str) -> bool:
    """Tell whether an id is of the form that runs get which collided with another one's."""
    return _COLLIDED_ID.fullmatch(run_id) is not None


def _name(base_id: str, number: int) -> str:
    return base_id if number == 1 else f"{base_id}#{number}"


def _begins_anew(attempt: Attempt, process: Process, moments: Moments) -> bool:
    if attempt.starts_again(moments):
        return True
    is_nameless = process.start_ns is None and attempt.leader == process
    return is_nameless and attempt.goes_back(moments.first_loop)


def _describe_split(first: Attempt, second: Attempt, moved: Attempt) -> str:
    return (
        f"Attempt {second.number} is another live controller with the same run id, which goes on "
        f"as {moved.run_id!r}; this attempt goes on from attempt {first.number}."
    )
