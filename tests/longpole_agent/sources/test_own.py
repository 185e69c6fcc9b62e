from pathlib import Path

from longpole.spool import Spool
from longpole_agent.counters import Counters
from longpole_agent.sources.own import OwnSource

SECOND = 1_000_000_000


def test_counters_are_sent_every_ten_seconds(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for _ in range(3):
        spool.append(b"x")
    spool.acknowledge(1)
    counters = Counters(received=7, forwarded=5, rejected=1, unstored=2, missed_ticks=4)
    source = OwnSource(spool, counters, tmp_path)
    values = {point.metric: point.value for point in source.sample(100 * SECOND)}
    assert 0.0 < (values.pop("longpole.agent.disk.utilization") or 0.0) <= 1.0
    assert values == {
        "longpole.agent.spool.records": 2,
        "longpole.agent.spool.bytes": spool.num_bytes,
        "longpole.agent.spool.utilization": spool.num_bytes / spool.max_bytes,
        "longpole.agent.dropped": 2,
        "longpole.agent.received": 7,
        "longpole.agent.forwarded": 5,
        "longpole.agent.rejected": 1,
        "longpole.agent.missed_ticks": 4,
    }
    assert source.sample(101 * SECOND) == []
    assert len(source.sample(110 * SECOND)) == 9
    counters.clock_ahead_s = -31.5
    later = {point.metric: point.value for point in source.sample(120 * SECOND)}
    assert later["longpole.agent.clock.offset"] == -31.5
    spool.close()
