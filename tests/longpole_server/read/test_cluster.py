import time
from collections.abc import Sequence

import pytest

from longpole_server.model.cluster import GpuMinute, NodeNow
from longpole_server.model.records import GpuSample, HostSample, Records
from support.store_opening import OpenedStore
from support.store_records import BASE_NS, SECOND_NS


def at(seconds: float) -> int:
    return BASE_NS + round(seconds * SECOND_NS)


@pytest.fixture(scope="module", autouse=True)
def written(opened: OpenedStore) -> None:
    hosts = [
        HostSample("node-1", at(0), 0.9, 1, 10),
        HostSample(
            "node-1",
            at(5),
            0.25,
            2,
            10,
            1e6,
            None,
            spool_used_ratio=0.25,
            agent_dropped_total=3,
            clock_offset_s=0.5,
        ),
        HostSample("node-0", at(3)),
        HostSample("node-9", at(-100), 0.5),
    ]
    gpus = [
        GpuSample("node-0", uuid, index, at(second), "H100", utilization_ratio=ratio,
                  clocks_event_reasons=bits, xid=79 if second == 2 else 0,
                  ecc_uncorrected_errors=2 if index == 0 else None)
        for uuid, index, second, ratio, bits in (
            ("GPU-0", 0, 1, 0.2, 0x40),
            ("GPU-0", 0, 2, 0.4, 0x1),
            ("GPU-0", 0, 3, None, 0x8),
            ("GPU-1", 1, 2, None, None),
            ("GPU-2", 2, -100, 1.0, 0),
        )
    ]  # fmt: skip
    opened.writer.write(Records(host_samples=hosts, gpu_samples=gpus), "cluster")


def test_the_newest_sample_of_every_node(opened: OpenedStore) -> None:
    assert opened.reader.list_nodes(at(0)) == [
        NodeNow("node-0", at(3)),
        NodeNow(
            "node-1", at(5), 0.25, 2, 10, 1e6, None,
            spool_used_ratio=0.25, agent_dropped_total=3, clock_offset_s=0.5,
        ),
    ]  # fmt: skip


def test_what_each_gpu_did_since_a_time(opened: OpenedStore) -> None:
    found = opened.reader.get_gpu_minutes(at(0))
    busy = found["node-0", "GPU-0"]
    assert (busy.num_samples, busy.throttle_bits) == (3, 0x48)
    assert busy.utilization_ratio == pytest.approx(0.3)
    assert busy.throttled_ratio == pytest.approx(2 / 3)
    assert (busy.xid, busy.ecc_uncorrected_errors) == (79, 2)
    assert found["node-0", "GPU-1"] == GpuMinute("node-0", "GPU-1", 1, None, None, 0, None, 79)
    assert len(found) == 2


def write_clock(
    opened: OpenedStore, host: str, said: Sequence[tuple[float, float, float | None]]
) -> None:
    """Write samples of a node and its GPU: seconds from now, value, and its clock as it says."""
    now_ns = time.time_ns()
    times = [(now_ns + round(seconds * SECOND_NS), value, ahead) for seconds, value, ahead in said]
    opened.writer.write(
        Records(
            host_samples=[
                HostSample(host, ts_ns, value, clock_offset_s=ahead)
                for ts_ns, value, ahead in times
            ],
            gpu_samples=[
                GpuSample(host, "GPU-0", 0, ts_ns, "H100", utilization_ratio=value)
                for ts_ns, value, _ in times
            ],
        ),
        host,
    )


def read_now(opened: OpenedStore, host: str) -> tuple[float | None, float | None]:
    """Return a node's load, and its GPU's over the last minute."""
    now_ns = time.time_ns()
    nodes = {node.host: node for node in opened.reader.list_nodes(now_ns - 86_400 * SECOND_NS)}
    minutes = opened.reader.get_gpu_minutes(now_ns - 60 * SECOND_NS)
    minute = minutes.get((host, "GPU-0"))
    return nodes[host].cpu_utilization_ratio, minute and minute.utilization_ratio


def test_a_clock_that_was_ahead_and_is_right_does_not_freeze_its_node(opened: OpenedStore) -> None:
    ahead = [(3540.0, 0.9, 3600.0), (3570.0, 0.9, None)]
    # What agents say of their clocks is a median, and takes a while to follow.
    right = [(-10.0, 0.2, 3600.0), (-5.0, 0.2, 0.0), (-1.0, 0.2, None)]
    write_clock(opened, "corrected", ahead + right)
    assert read_now(opened, "corrected") == pytest.approx((0.2, 0.2))


def test_a_clock_that_is_ahead_shows_what_it_sends_now(opened: OpenedStore) -> None:
    earlier = [(-1.0, 0.9, 3600.0), (0.0, 0.9, None), (1800.0, 0.9, 3600.0)]
    write_clock(opened, "ahead", [*earlier, (3595.0, 0.2, 3600.0), (3599.0, 0.2, None)])
    assert read_now(opened, "ahead") == pytest.approx((0.2, 0.2))


def test_a_clock_that_is_behind_still_has_a_last_minute(opened: OpenedStore) -> None:
    write_clock(opened, "behind", [(-400.0, 0.9, -300.0), (-305.0, 0.2, -300.0)])
    assert read_now(opened, "behind") == pytest.approx((0.2, 0.2))


def test_a_clock_that_nobody_compared_is_believed(opened: OpenedStore) -> None:
    write_clock(opened, "silent", [(-20.0, 0.4, None), (100.0, 0.2, None)])
    assert read_now(opened, "silent") == pytest.approx((0.2, 0.3))
