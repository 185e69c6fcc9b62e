from longpole_dashboards.addresses import Query
from longpole_dashboards.pages.run_window import RunWindow
from support.dashboard_fake_service import LIVE_RUN, FakeService

NOW_NS = 1_760_000_000 * 10**9
STEPS = FakeService(NOW_NS).list_steps(LIVE_RUN)


def window(search: str) -> RunWindow:
    return RunWindow.parse(Query.parse(search))


def test_steps_are_the_time_from_the_first_to_the_end_of_the_last() -> None:
    found = window("?zoom=4.6-8.2")
    assert found.as_steps(STEPS, NOW_NS) == (4.6, 8.2)
    inside = [step for step in STEPS if 5 <= step.step <= 8]
    assert found.as_span_ns(STEPS, NOW_NS) == (inside[0].start_ns, inside[-1].end_ns)


def test_a_time_is_the_steps_that_touch_it() -> None:
    start_ms, end_ms = STEPS[4].start_ns // 10**6 + 1, (STEPS[6].end_ns or 0) // 10**6 - 1
    found = window(f"?time={start_ms}-{end_ms}")
    assert found.as_span_ns(STEPS, NOW_NS) == (start_ms * 10**6, end_ms * 10**6)
    assert found.as_steps(STEPS, NOW_NS) == (STEPS[4].step - 0.5, STEPS[6].step + 0.5)


def test_a_time_wins_over_steps_and_nonsense_over_nothing() -> None:
    assert window("?zoom=1-4&time=5-9").steps is None
    for search in ("", "?zoom=4-1", "?zoom=x", "?zoom=nan-3", "?time=9-5", "?zoom=1-inf"):
        assert not window(search).is_chosen


def test_a_window_beside_the_run_shows_nothing_of_it() -> None:
    assert window("?time=5-9").as_steps(STEPS, NOW_NS) is None
    assert window("?zoom=900000-900010").as_span_ns(STEPS, NOW_NS) is None
