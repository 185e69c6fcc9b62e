from longpole_dashboards.alarm import Alarm
from longpole_dashboards.live import make_tick
from longpole_server.service import Change

CHANGE = Change(version=7, ts_ns=1_500_000_000)


def test_a_tick_tells_a_restarted_server_from_an_old_one() -> None:
    one, other = make_tick(CHANGE, "aaaa", 2_000_000_000), make_tick(CHANGE, "bbbb", 0)
    assert (one["as_of_ms"], one["now_ms"]) == (1500, 2000)
    assert one["version"] != other["version"]


def test_alerts_and_passing_time_are_news_too() -> None:
    calm = make_tick(CHANGE, "aaaa", 2_000_000_000)
    loud = make_tick(CHANGE, "aaaa", 2_000_000_000, Alarm(2, "warning", "x"))
    assert calm["version"] != loud["version"]
    assert (loud["firing"], loud["severity"]) == (2, "warning")
    blind = make_tick(CHANGE, "aaaa", 2_000_000_000, Alarm(blind="nobody judges"))
    assert (blind["blind"], calm["blind"]) == ("nobody judges", None)
    assert make_tick(CHANGE, "aaaa", 2_100_000_000) != calm
    assert make_tick(CHANGE, "aaaa", 2_100_000_000)["version"] == calm["version"]
    assert make_tick(CHANGE, "aaaa", 32_000_000_000)["version"] != calm["version"]
