from longpole_agent.sources.host import HostSource


def test_cpu_memory_and_network_of_this_node() -> None:
    source = HostSource()
    points = {
        (point.metric, *(value for _, value in point.attributes)): point
        for point in source.sample(5)
    }
    assert points.keys() == {
        ("system.cpu.utilization",),
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
