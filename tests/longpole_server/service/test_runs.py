from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from longpole_server.errors import StoreError, StoreLimitError
from longpole_server.read.run_parts import RunParts
from longpole_server.service.runs import RunsReader
from support.server_runs import RunScript
from support.server_service import ServiceBench, opened_bench

RUN_IDS = [f"runs/{number}" for number in range(5)]


class WeakReader:
    """Reads the parts of so many runs at once, and fails at more."""

    def __init__(self, bench: ServiceBench, max_runs: int, error: StoreError) -> None:
        self._bench = bench
        self._max_runs = max_runs
        self._error = error
        self.asked: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bench.reader, name)

    def list_run_parts(
        self, run_ids: Sequence[str], num_steps: int, num_paces: int
    ) -> Mapping[str, RunParts]:
        self.asked.append(len(run_ids))
        if len(run_ids) > self._max_runs:
            raise self._error
        return self._bench.reader.list_run_parts(run_ids, num_steps, num_paces)


def test_runs_whose_figures_take_too_much_at_once_are_read_in_parts(tmp_path: Path) -> None:
    """One read of up to 200 runs that failed took the whole page with it, at every look."""
    with opened_bench(tmp_path) as bench:
        for pid, run_id in enumerate(RUN_IDS):
            script = RunScript(run_id, pid=pid)
            bench.write(script.start(), script.whole_step(1, 0.0))

        def read_with(max_runs: int, error: StoreError) -> tuple[WeakReader, RunsReader]:
            weak: Any = WeakReader(bench, max_runs, error)
            return weak, RunsReader(weak, bench.revisions, 60.0, lambda _: (), bench.clock.now_ns)

        weak, runs = read_with(2, StoreLimitError("more than 1 GiB"))
        assert sorted(run.run_id for run in runs.list_summaries()) == RUN_IDS
        assert [run.num_steps for run in runs.list_summaries()] == [1] * 5
        assert weak.asked == [5, 2, 3, 1, 2], "and what was read is kept"

        # A store that is away is not asked again and again.
        weak, runs = read_with(2, StoreError("nobody answers"))
        with pytest.raises(StoreError):
            runs.list_summaries()
        assert weak.asked == [5]

        weak, runs = read_with(0, StoreLimitError("more than 1 GiB"))
        with pytest.raises(StoreLimitError):
            runs.list_summaries()
        assert weak.asked == [5, 2, 1]
