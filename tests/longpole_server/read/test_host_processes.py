from longpole_server.model.records import HostProcess, Records
from support.store_opening import OpenedStore

NS = 10**9
BASE = 1_700_000_000 * NS
MIB = 1 << 20


def test_who_grew_most_comes_first_under_its_last_title(opened: OpenedStore) -> None:
    def process(pid: int, at_s: int, mib: int, title: str, host: str = "node-a") -> HostProcess:
        return HostProcess(host, pid, BASE + at_s * NS, title, mib * MIB, "ray/s/01")

    opened.writer.write(
        Records(
            host_processes=[
                *(process(7, at, 100 + at, f"ray::Worker.step{at}") for at in range(0, 60, 10)),
                process(8, 0, 900, "ray::Other"),
                process(8, 50, 880, "ray::Other"),
                process(9, 0, 1, "ray::Elsewhere", "node-b"),
            ]
        ),
        "processes",
    )
    grown, shrunk = opened.reader.list_host_processes("node-a", BASE, BASE + 60 * NS, 3, 10)
    assert (grown.pid, grown.title, grown.ray_job_id) == (7, "ray::Worker.step50", "ray/s/01")
    assert (grown.first_bytes, grown.last_bytes, grown.grown_bytes) == (
        100 * MIB, 150 * MIB, 50 * MIB,
    )  # fmt: skip
    assert grown.points == (
        (BASE + 10 * NS, 110 * MIB), (BASE + 30 * NS, 130 * MIB), (BASE + 50 * NS, 150 * MIB),
    )  # fmt: skip
    assert (shrunk.grown_bytes, shrunk.max_bytes) == (-20 * MIB, 900 * MIB)
    everywhere = opened.reader.list_host_processes(None, BASE, BASE + 60 * NS, 3, 2)
    assert [each.pid for each in everywhere] == [7, 9]
