"""How fast each GPU and each replica of a run is against the best of its kind."""

from collections.abc import Sequence
from dataclasses import replace

from longpole_server.analysis.stragglers import score_step, stand_gpus, stand_replicas
from longpole_server.diagnosis.overrides import read_limits
from longpole_server.model.gpu import RunGpu
from longpole_server.model.step import Step
from longpole_server.model.stragglers import RunStragglers, Stragglers
from longpole_server.read import Reader
from longpole_server.service.facts import FactsReader
from longpole_server.service.runs import RunsReader

# As many as a verdict looks at.
MAX_PACED_STEPS = 20
# Agents tell of processes every ten seconds, and of one that does not change less often.
_RANKS_BEFORE_NS = 60 * 10**9


class PaceReader:
    """Scores GPUs and replicas. Thread-safe; every method raises `StoreError` when it fails.

    Args:
        reader: Reads the store.
        runs: Answers for runs.
        facts: Builds and keeps facts of steps.
    """

    def __init__(self, reader: Reader, runs: RunsReader, facts: FactsReader) -> None:
        self._reader = reader
        self._runs = runs
        self._facts = facts

    def score(self, step: Step, run_gpus: Sequence[RunGpu]) -> Stragglers:
        """Score the GPUs and replicas of a step; nobody is scored while it is open."""
        if step.closed_by is None:
            return Stragglers()
        found = self._score(step, run_gpus)
        uuids = [score.gpu_uuid for score in found.gpus]
        end_ns = step.end_ns or step.start_ns
        ranks = self._reader.list_gpu_ranks(uuids, step.start_ns - _RANKS_BEFORE_NS, end_ns)
        return replace(
            found,
            gpus=tuple(
                replace(score, rank=ranks[score.gpu_uuid]) if score.gpu_uuid in ranks else score
                for score in found.gpus
            ),
        )

    def stand(self, run_id: str, steps: Sequence[Step]) -> RunStragglers:
        """Put the scores of several closed steps of a run together."""
        if not steps:
            return RunStragglers()
        run_gpus = self._runs.list_run_gpus(run_id)
        scored = [self._score(step, run_gpus) for step in steps]
        newest = steps[-1]
        uuids = sorted({score.gpu_uuid for step in scored for score in step.gpus})
        ranks = self._reader.list_gpu_ranks(
            uuids, newest.start_ns - _RANKS_BEFORE_NS, newest.end_ns or newest.start_ns
        )
        return RunStragglers(
            first_step=steps[0].step,
            last_step=newest.step,
            num_steps=len(steps),
            gpus=stand_gpus(scored, ranks),
            replicas=stand_replicas(scored),
        )

    def _score(self, step: Step, run_gpus: Sequence[RunGpu]) -> Stragglers:
        facts = self._facts.read_step(step, run_gpus)
        limits, _ = read_limits(self._runs.get_start(step.run_id, step.attempt).config)
        return score_step(
            facts.gpus,
            facts.trajectories,
            clock_ratio=limits["straggler.clock_ratio"],
            pace_ratio=limits["rollout.imbalance.ratio"],
        )
