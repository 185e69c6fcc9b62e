from longpole_dashboards.live import make_tick
from longpole_server.service import Change


def test_a_tick_tells_a_restarted_server_from_an_old_one() -> None:
    change = Change(version=7, ts_ns=1_500_000_000)
    one, other = make_tick(change, "aaaa", 2_000_000_000), make_tick(change, "bbbb", 0)
    assert one == {"version": "aaaa-7", "as_of_ms": 1500, "now_ms": 2000}
    assert one["version"] != other["version"]
