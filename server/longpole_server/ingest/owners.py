"""Whose the runs are that a request names, for a sender that is bound to projects."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from longpole_server.errors import BadRequestError, ForbiddenError
from longpole_server.ingest.normalize.attempt_book import find_base_id, is_like_collided
from longpole_server.ingest.normalize.sender import Process
from longpole_server.model.principal import Principal
from longpole_server.model.records import RunStart

# Runs that one request may name: each is looked up, while other senders wait.
MAX_RUNS = 64

FindStarts = Callable[[str], Sequence[RunStart]]


@dataclass(frozen=True, slots=True)
class _Claimed:
    """What is known of a run id that a sender declares.

    Attributes:
        foreigner: A project that the sender is not bound to and that has a run of this id.
        leaders: By process the attempt that it leads.
    """

    foreigner: str | None
    leaders: Mapping[Process, RunStart]


class Owners:
    """Judges the runs of one request; each is looked up once.

    Args:
        sender: Who is bound to projects.
        find_starts: As `Admission` has it.
    """

    def __init__(self, sender: Principal, find_starts: FindStarts) -> None:
        self._sender = sender
        self._find_starts = find_starts
        self._claimed: dict[str, _Claimed] = {}

    def check(self, run_id: str, process: Process | None, attempt: int | None) -> None:
        """Let a run pass that is the sender's, or nobody's yet.

        Args:
            run_id: As it is declared, and addressable.
            process: That declares it, None where that is not said.
            attempt: That it declares, None without one.

        Raises:
            ForbiddenError: It, or a run that collided with its id, is of a project that the sender
                is not bound to; or its id is of the form that only the server gives.
            BadRequestError: It is one too many.
        """
        claimed = self._claimed.get(run_id)
        if claimed is None:
            claimed = self._claimed[run_id] = self._look_up(run_id)
        if claimed.foreigner is None:
            return
        led = None if process is None else claimed.leaders.get(process)
        # Where ids collided, a leader's data goes to the attempt it leads; all else goes by host.
        is_own = (
            led is not None and self._sender.sees(led.project) and attempt in {None, led.attempt}
        )
        if not is_own:
            raise ForbiddenError(
                f"{self._sender.name} may not send to project {claimed.foreigner!r}, which has a"
                " run of this id.",
                hint="Choose another run id.",
            )

    def _look_up(self, run_id: str) -> _Claimed:
        if len(self._claimed) >= MAX_RUNS:
            raise BadRequestError(
                f"The request names more than {MAX_RUNS} runs, and {self._sender.name} may send to"
                " single projects.",
                hint="Send them in several requests, or with a token without projects.",
            )
        starts = self._find_starts(run_id)
        own = [start for start in starts if start.run_id == run_id]
        if is_like_collided(run_id) and not (own and self._sender.sees(own[-1].project)):
            raise ForbiddenError(
                f"{self._sender.name} may not send to run {run_id!r}: ids that end in # and a"
                " number are given by the server, to runs whose id is in use already.",
                hint="Choose another run id.",
            )
        family = [start for start in starts if find_base_id(start) == run_id]
        # The newest attempt says whose a run is.
        owners = {start.run_id: start.project for start in family}.values()
        return _Claimed(
            next((each for each in owners if each and not self._sender.sees(each)), None),
            {leader: start for start in family if (leader := _find_leader(start)) is not None},
        )


def _find_leader(start: RunStart) -> Process | None:
    if start.host is None or start.pid is None:
        return None
    return Process(start.host, start.pid, start.process_start_ns)
