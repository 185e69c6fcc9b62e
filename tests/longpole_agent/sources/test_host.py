from pathlib import Path

from longpole_agent.sources.host import HostSource

DISKS = {("system.disk.io", "read"), ("system.disk.io", "write")}


def test_cpu_memory_and_network_of_this_node() -> None:
    source = HostSource(Path("/nothing"))
    points = {
        (point.metric, *(value for _, value in point.attributes)): point
        for point in source.sample(5)
    }
    assert points.keys() - DISKS == {
        ("system.cpu.utilization",),
        ("system.cpu.logical.count",),
        ("system.memory.usage", "used"),
        ("system.memory.limit",),
        ("system.network.io", "receive"),
        ("system.network.io", "transmit"),
    }
    values = {key[0]: point.value for key, point in points.items()}
    assert all(value is not None for value in values.values())
    assert 0 <= (values["system.cpu.utilization"] or 0) <= 1
    assert 0 < (values["system.memory.usage"] or 0) < (values["system.memory.limit"] or 0)
    assert all(point.ts_ns == 5 for point in points.values())
    assert points["system.network.io", "receive"].kind == "counter"
    source.close()


def add_port(sys: Path, device: str, port: int, received: str, sent: str) -> None:
    counters = sys / "class" / "infiniband" / device / "ports" / str(port) / "counters"
    counters.mkdir(parents=True)
    (counters / "port_rcv_data").write_text(received)
    (counters / "port_xmit_data").write_text(sent)


def test_fabrics_are_counted_by_device_in_bytes(tmp_path: Path) -> None:
    add_port(tmp_path, "mlx5_0", 1, "100\n", "10\n")
    add_port(tmp_path, "mlx5_0", 2, "5\n", "N/A\n")
    add_port(tmp_path, "mlx5_1", 1, "7\n", "8\n")
    source = HostSource(tmp_path)
    points = [point for point in source.sample(5) if point.metric == "hw.network.io"]
    assert {tuple(value for _, value in each.attributes): each.value for each in points} == {
        ("mlx5_0", "receive"): 420,
        ("mlx5_0", "transmit"): 40,
        ("mlx5_1", "receive"): 28,
        ("mlx5_1", "transmit"): 32,
    }
    assert {point.kind for point in points} == {"counter"}


def test_the_number_of_processors_is_told_now_and_then() -> None:
    source = HostSource()
    told = [
        any(point.metric == "system.cpu.logical.count" for point in source.sample(at_s * 10**9))
        for at_s in (1, 2, 10, 11)
    ]
    assert told == [True, False, False, True]
