"""Whatever was written since: the kept table is what the store holds."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.analysis.step_table import StepTable
from longpole_server.model.step import Step
from longpole_server.read.step_columns import StepsState, VersionedColumns
from longpole_server.service.step_tables import StepTables, select


@dataclass
class FakeRows:
    """The steps of one run by attempt and number, as a store that replaces by version."""

    rows: dict[tuple[int, int], tuple[int, Step]] = field(
        default_factory=dict[tuple[int, int], tuple[int, Step]]
    )
    num_whole_reads: int = 0

    def write(self, version: int, attempt: int, number: int) -> None:
        key = (attempt, number)
        if key not in self.rows or self.rows[key][0] < version:
            self.rows[key] = (version, make_step(attempt, number, float(version)))

    def get_steps_state(self, run_id: str) -> StepsState:
        del run_id
        versions = [version for version, _ in self.rows.values()]
        return StepsState(len(versions), sum(versions), max(versions, default=0))

    def list_step_columns(self, run_id: str, after: int = 0) -> VersionedColumns:
        del run_id
        self.num_whole_reads += after == 0
        found = [self.rows[key] for key in sorted(self.rows) if self.rows[key][0] > after]
        columns = StepTable.of([step for _, step in found]).columns
        versions = np.array([version for version, _ in found], dtype=np.uint64)
        return VersionedColumns(columns, versions)

    def list_latest(self) -> list[Step]:
        latest: dict[int, Step] = {}
        for key in sorted(self.rows):
            latest[key[1]] = self.rows[key][1]
        return [latest[number] for number in sorted(latest)]


def make_step(attempt: int, number: int, seconds: float) -> Step:
    return Step("run", number, attempt, number, number + 1, seconds, "loop", (), seconds, ())


_WRITES = st.lists(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 3), st.integers(1, 6)), max_size=6),
    max_size=6,
)


@given(_WRITES)
def test_the_table_follows_the_store(batches: list[list[tuple[int, int, int]]]):
    store = FakeRows()
    tables = StepTables(store)
    for token, batch in enumerate(batches):
        for version, attempt, number in batch:
            store.write(version, attempt, number)
        assert tables.read("run", token) == store.list_latest()


def test_news_alone_are_read():
    store = FakeRows()
    tables = StepTables(store)
    for number in range(1, 5):
        store.write(number, 1, number)
    first = tables.read("run", 0)
    assert tables.read("run", 0) is first
    assert tables.read("run", 1) is first
    store.write(9, 2, 3)
    assert [step.attempt for step in tables.read("run", 2)] == [1, 1, 2, 1]
    assert store.num_whole_reads == 1
    # An older version from another server is not among the news.
    store.write(8, 1, 7)
    assert len(tables.read("run", 3)) == 5
    assert store.num_whole_reads == 2


@given(st.none() | st.integers(-1, 12), st.none() | st.integers(-1, 12))
def test_a_range_is_inclusive(first: int | None, last: int | None):
    table = StepTable.of([make_step(1, number, 1.0) for number in (1, 2, 5, 8, 9)])
    low, high = -9 if first is None else first, 99 if last is None else last
    assert [step.step for step in select(table, first, last)] == [
        number for number in (1, 2, 5, 8, 9) if low <= number <= high
    ]
