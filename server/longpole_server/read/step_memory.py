"""Steps that were read before: of a long run only those that are new or changed are read again."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from longpole_server.model.step import Step

# (attempt, step, version): the version grows whenever a step is derived again.
Edition = tuple[int, int, int]
MAX_STEPS = 20_000


class StepMemory:
    """Remembers decoded steps by their version. Bounded: the longest unused go first. Thread-safe.

    Args:
        max_steps: Most steps that are remembered, of all runs.
    """

    def __init__(self, max_steps: int = MAX_STEPS) -> None:
        self._max_steps = max_steps
        self._lock = Lock()
        self._steps: OrderedDict[tuple[str, int, int], tuple[int, Step]] = OrderedDict()

    def recall(
        self,
        run_id: str,
        editions: Sequence[Edition],
        read: Callable[[Sequence[Edition]], Mapping[Edition, Step]],
    ) -> Sequence[Step]:
        """Return the steps of these editions, in their order.

        Args:
            run_id: Their run.
            editions: Which ones.
            read: Reads those that are not remembered; one that is gone meanwhile is left out.
        """
        found: dict[Edition, Step] = {}
        with self._lock:
            for edition in editions:
                attempt, number, version = edition
                known = self._steps.get((run_id, attempt, number))
                if known is not None and known[0] == version:
                    found[edition] = known[1]
                    self._steps.move_to_end((run_id, attempt, number))
        missing = [edition for edition in editions if edition not in found]
        if missing:
            fresh = read(missing)
            found |= fresh
            self._keep(run_id, fresh)
        return [found[edition] for edition in editions if edition in found]

    def _keep(self, run_id: str, fresh: Mapping[Edition, Step]) -> None:
        with self._lock:
            for (attempt, number, version), step in fresh.items():
                self._steps[run_id, attempt, number] = (version, step)
            while len(self._steps) > self._max_steps:
                self._steps.popitem(last=False)
