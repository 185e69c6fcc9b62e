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
        HostSample("node-1", at(5), 0.25, 2, 10, 1e6, None),
        HostSample("node-0", at(3)),
        HostSample("node-9", at(-100), 0.5),
    ]
    gpus = [
        GpuSample("node-0", uuid, index, at(second), "H100", utilization_ratio=ratio,
                  clocks_event_reasons=bits)
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
        NodeNow("node-1", at(5), 0.25, 2, 10, 1e6, None),
    ]


def test_what_each_gpu_did_since_a_time(opened: OpenedStore) -> None:
    found = opened.reader.get_gpu_minutes(at(0))
    busy = found["node-0", "GPU-0"]
    assert (busy.num_samples, busy.throttle_bits) == (3, 0x48)
    assert busy.utilization_ratio == pytest.approx(0.3)
    assert busy.throttled_ratio == pytest.approx(2 / 3)
    assert found["node-0", "GPU-1"] == GpuMinute("node-0", "GPU-1", 1, None, None, 0)
    assert len(found) == 2
