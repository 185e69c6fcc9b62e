import pytest

from longpole_server.model.records import MetricPoint, Records
from support.store_opening import OpenedStore
from support.store_records import BASE_NS

NAMES = ("val-core/openai/gsm8k/acc/mean@1", "it's", 'a "b"\\')


@pytest.fixture(scope="module", autouse=True)
def written(opened: OpenedStore) -> None:
    points = [
        MetricPoint("scalars", attempt, step, name, attempt * 100.0 + step, BASE_NS + step)
        for attempt, step in ((1, 1), (1, 2), (1, 3), (2, 2))
        for name in NAMES
    ]
    opened.writer.write(Records(metric_points=points), "scalars")


def test_the_scalars_of_a_step_and_when_the_newest_came(opened: OpenedStore) -> None:
    assert opened.reader.get_scalars("scalars", 1, 2) == (
        dict.fromkeys(sorted(NAMES), 102.0),
        BASE_NS + 2,
    )
    assert opened.reader.get_scalars("scalars", 2, 1) == ({}, None)


def test_the_scalars_of_many_steps(opened: OpenedStore) -> None:
    found = opened.reader.list_scalars("scalars", [(2, 2), (1, 2), (9, 9)])
    assert {key: set(scalars.values()) for key, scalars in found.items()} == {
        (2, 2): {202.0},
        (1, 2): {102.0},
        (9, 9): set(),
    }
    assert opened.reader.list_scalars("scalars", []) == {}


def test_a_metric_follows_the_latest_attempt(opened: OpenedStore) -> None:
    found = opened.reader.get_metrics("scalars", ["missing", NAMES[1], NAMES[0]])
    assert found[NAMES[1]] == [
        (1, BASE_NS + 1, 101.0),
        (2, BASE_NS + 2, 202.0),
        (3, BASE_NS + 3, 103.0),
    ]
    assert "missing" not in found


def test_metrics_as_columns_follow_the_latest_attempt(opened: OpenedStore) -> None:
    assert opened.reader.count_points("scalars", 2, None) == dict.fromkeys(sorted(NAMES), 3)
    names = ["missing", NAMES[1], NAMES[0]]
    found = opened.reader.read_metric_columns("scalars", names, 2, 3)
    assert set(found) == {NAMES[0], NAMES[1]}
    for name, columns in found.items():
        assert (columns.name, len(columns)) == (name, 2)
        assert columns.steps.tolist() == [2, 3]
        assert columns.ts_ns.tolist() == [BASE_NS + 2, BASE_NS + 3]
        assert columns.values.tolist() == [202.0, 103.0]


@pytest.mark.parametrize("names", [[], ["missing"]])
def test_a_metric_nobody_logged(opened: OpenedStore, names: list[str]) -> None:
    assert opened.reader.get_metrics("scalars", names) == {}
    assert opened.reader.read_metric_columns("scalars", names, None, None) == {}


def test_the_newest_point_of_a_step_counts(opened: OpenedStore) -> None:
    for token, (ts_ns, value) in enumerate([(BASE_NS + 5, 5.0), (BASE_NS + 1, 1.0)]):
        point = MetricPoint("relogged", 1, 1, "reward", value, ts_ns)
        opened.writer.write(Records(metric_points=[point]), f"relogged-{token}")
    assert opened.reader.get_scalars("relogged", 1, 1) == ({"reward": 5.0}, BASE_NS + 5)
    assert opened.reader.get_metrics("relogged", ["reward"]) == {"reward": [(1, BASE_NS + 5, 5.0)]}
