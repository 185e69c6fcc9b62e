"""Which run a job is: for senders that name no run, such as RL-Insight's client and engines.

Agents say for which job such a sender works. Some process of the same job names the run, sooner or
later; what comes before that waits.
"""

import hashlib
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import replace

from longpole_server.ingest.normalize.sender import CONTROLLER, Process, Sender
from longpole_server.model.records import Records

ROLLOUT = "rollout"
_MAX_JOBS = 4096
_MAX_ADOPTED = 8192
# Beyond 31 bits, so that it is never taken for a process id.
_HASH_BYTES = 7

# Adds what waited to the records of a later batch.
Late = Callable[[Records], None]


class JobBook:
    """Knows the runs of jobs, and keeps what waits for one. Not thread-safe.

    Args:
        max_waiting: Most facts that wait over all jobs; the oldest ones are given up first.
    """

    def __init__(self, max_waiting: int = 50_000) -> None:
        self._max_waiting = max_waiting
        self._runs: OrderedDict[str, str] = OrderedDict()
        # Jobs of which a process speaks for itself.
        self._spoken_for: set[str] = set()
        self._waiting: OrderedDict[str, deque[tuple[int, Late]]] = OrderedDict()
        self._adopted: OrderedDict[tuple[Sender, str, str], Sender] = OrderedDict()
        self.num_waiting = 0
        self.num_given_up = 0

    def find(self, job: str) -> str | None:
        """Return the run of a job, None while nobody named it."""
        return self._runs.get(job)

    def has_process(self, job: str) -> bool:
        """Tell whether a process of the job speaks for itself, not only through a monitor."""
        return job in self._spoken_for

    def learn(self, job: str, run_id: str, into: Records, *, from_process: bool = False) -> None:
        """Remember the run of a job, and add what waited for it."""
        if not job:
            return
        if from_process:
            self._spoken_for.add(job)
        if self._runs.get(job) == run_id:
            return
        self._runs[job] = run_id
        if len(self._runs) > _MAX_JOBS:
            forgotten, _ = self._runs.popitem(last=False)
            self._spoken_for.discard(forgotten)
        for weight, late in self._waiting.pop(job, ()):
            self.num_waiting -= weight
            late(into)

    def wait(self, job: str, weight: int, late: Late) -> None:
        """Keep something until the run of its job is known. Without a job it is given up."""
        if not job:
            self.num_given_up += weight
            return
        self._waiting.setdefault(job, deque()).append((weight, late))
        self.num_waiting += weight
        while self.num_waiting > self._max_waiting:
            oldest = next(iter(self._waiting))
            given_up, _ = self._waiting[oldest].popleft()
            self.num_waiting -= given_up
            self.num_given_up += given_up
            if not self._waiting[oldest]:
                del self._waiting[oldest]

    def resolve(self, sender: Sender) -> Sender | None:
        """Return who a process of a job speaks for, None while nobody of its job named the run.

        Controllers, and those who work for no job, speak for the run they name or that is made up.
        """
        if sender.names_run or not sender.job or sender.role == CONTROLLER:
            return sender
        run_id = self.find(sender.job)
        return None if run_id is None else self.adopt(sender, run_id, sender.role)

    def adopt(self, sender: Sender, run_id: str, role: str) -> Sender:
        """Return the sender as a member of a run. Always the same object for the same answer."""
        key = (sender, run_id, role)
        adopted = self._adopted.get(key)
        if adopted is None:
            process = sender.process
            if role == CONTROLLER and process is None:
                process = _name_process(sender)
            adopted = replace(sender, run_id=run_id, role=role, process=process)
            self._adopted[key] = adopted
            if len(self._adopted) > _MAX_ADOPTED:
                self._adopted.popitem(last=False)
        return adopted


def _name_process(sender: Sender) -> Process:
    """Return what stands for the process of a monitor: its job tells one life from another."""
    digest = hashlib.sha256(sender.job.encode()).digest()
    return Process(sender.host, 0, int.from_bytes(digest[:_HASH_BYTES], "big"))
