from longpole_server.model.records import (
    MetricPoint,
    ProcessSeen,
    Records,
    RunEnd,
    TrajectorySpan,
)
from longpole_server.store.activity import Activity, make_activity_rows
from support.store_records import BASE_NS, SECOND_NS, make_batch


def make_point(offset_ns: int) -> Records:
    return Records(metric_points=[MetricPoint("run", 1, 1, "reward", 0.0, BASE_NS + offset_ns)])


def test_each_attempt_has_its_newest_time() -> None:
    records = Records(
        run_ends=[RunEnd("a", 1, BASE_NS, "finished")],
        processes=[
            ProcessSeen("a", 2, "h", 1, "trainer", BASE_NS + 5),
            ProcessSeen("a", 2, "h", 2, "rollout", BASE_NS + 3),
        ],
        trajectory_spans=[TrajectorySpan("b", 1, "t", "tool", "x", BASE_NS, BASE_NS + 9, "s")],
    )
    assert Activity().find_news(records) == {
        ("a", 1): BASE_NS,
        ("a", 2): BASE_NS + 5,
        ("b", 1): BASE_NS + 9,
    }


def test_what_belongs_to_no_run_counts_for_none() -> None:
    batch = make_batch(0)
    records = Records(gpu_samples=batch.gpu_samples, raw_spans=batch.raw_spans)
    assert Activity().find_news(records) == {}


def test_what_is_less_than_a_second_newer_is_no_news() -> None:
    activity = Activity()
    activity.remember(activity.find_news(make_point(0)))
    assert activity.find_news(make_point(SECOND_NS - 1)) == {}
    assert activity.find_news(make_point(-SECOND_NS)) == {}
    assert activity.find_news(make_point(SECOND_NS)) == {("run", 1): BASE_NS + SECOND_NS}


def test_an_end_is_always_news() -> None:
    activity = Activity()
    activity.remember(activity.find_news(make_point(0)))
    end = Records(run_ends=[RunEnd("run", 1, BASE_NS + 1, "finished")])
    assert activity.find_news(end) == {("run", 1): BASE_NS + 1}


def test_rows_carry_run_attempt_and_time() -> None:
    (row,) = make_activity_rows({("run", 2): BASE_NS}).to_pylist()
    assert (row["run_id"], row["attempt"], row["last_seen_ns"].value) == ("run", 2, BASE_NS)


def test_a_clock_that_is_ahead_keeps_no_run_alive() -> None:
    activity = Activity(clock_ns=lambda: BASE_NS)
    found = activity.find_news(make_point(7_200 * SECOND_NS))
    assert found == {("run", 1): BASE_NS + 60 * SECOND_NS}
