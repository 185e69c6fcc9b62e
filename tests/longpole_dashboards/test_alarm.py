from dataclasses import replace

import pytest

from longpole_dashboards.alarm import NO_ALARM, find_silence, make_alarm, read_alarm
from longpole_server.model.alert import Acknowledgement, Alert, Silence
from support.dashboard_fake_service import HANGING_RUN, LIVE_RUN, FakeService

NOW_NS = 1_760_000_000 * 10**9


@pytest.fixture
def alerts() -> dict[str, Alert]:
    return {alert.rule: alert for alert in FakeService(NOW_NS).alerts.alerts}


def make_silence(
    rule: str | None = None, run_id: str | None = None, entity: str | None = None
) -> Silence:
    return Silence("s", rule, run_id, entity, "kim", "", NOW_NS, NOW_NS + 10**12)


def test_firing_alerts_are_counted_and_the_severest_is_told() -> None:
    alarm = read_alarm(FakeService(NOW_NS))
    assert (alarm.num_firing, alarm.severity) == (3, "critical")
    assert read_alarm(FakeService(NOW_NS, specs=())).num_firing == 0


def test_what_somebody_looks_after_is_counted_and_no_longer_alarms(
    alerts: dict[str, Alert],
) -> None:
    hang, hot = alerts["run.hang"], alerts["gpu.throttled"]
    assert make_alarm([hang, hot], []).severity == "critical"
    cared = replace(hang, acknowledged=Acknowledgement("kim", NOW_NS, ""))
    assert (make_alarm([cared, hot], []).num_firing, make_alarm([cared, hot], []).severity) == (
        2,
        None,
    )
    free = replace(hot, acknowledged=None)
    assert make_alarm([cared, free], []).severity == "warning"
    assert make_alarm([cared, free], [make_silence("gpu")]).severity is None


def test_the_mark_differs_when_anything_that_is_shown_does(alerts: dict[str, Alert]) -> None:
    hang = alerts["run.hang"]
    cared = replace(hang, acknowledged=Acknowledgement("kim", NOW_NS, ""))
    marks = {
        make_alarm([], []).mark,
        make_alarm([hang], []).mark,
        make_alarm([cared], []).mark,
        make_alarm([hang], [make_silence("run")]).mark,
        make_alarm([], [], "nobody judges").mark,
        NO_ALARM.mark,
    }
    assert len(marks) == 6
    assert make_alarm([replace(hang, count=99)], []).mark == make_alarm([hang], []).mark


@pytest.mark.parametrize(
    ("silence", "covers"),
    [
        (make_silence("run.hang"), True),
        (make_silence("run"), True),
        (make_silence("run.h"), False),
        (make_silence(run_id=HANGING_RUN), True),
        (make_silence("run.hang", run_id=LIVE_RUN), False),
        (make_silence(entity=HANGING_RUN), True),
        (make_silence(entity="node-a1"), False),
    ],
)
def test_silences_cover_rules_runs_and_entities(
    alerts: dict[str, Alert], silence: Silence, covers: bool
) -> None:
    assert (find_silence(alerts["run.hang"], [silence]) is silence) == covers
