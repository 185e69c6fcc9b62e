# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from longpole_dashboards.pages.cluster_hardware import PANELS
from longpole_dashboards.pages.cluster_panels import HEAT_PANELS
from longpole_dashboards.reading import Reader
from longpole_server.model.cluster import ProcessMemory
from longpole_server.model.gpu import GpuHeatmap
from support.dashboard_components import words
from support.dashboard_fake_service import FakeService
from support.dashboard_rendering import NOW_NS, make_view, render


def shown(query: dict[str, str], service: FakeService | None = None) -> dict[str, Any]:
    return render(PANELS, service or FakeService(NOW_NS), make_view(query))


def say(component: object) -> str:
    return " ".join(words(component).split())


def test_the_stragglers_of_every_run_that_goes_on() -> None:
    paces = say(shown({})["cluster-paces.children"])
    assert "steps 11–30" in paces
    assert "hardware thermal" in paces
    assert "20 of 20" in paces
    elsewhere = say(shown({"node": "node-f1"})["cluster-paces.children"])
    assert "None of its GPUs is on this node." in elsewhere


def test_one_gpu_over_time() -> None:
    assert shown({})["cluster-gpu-panel.style"] == {"display": "none"}
    service = FakeService(NOW_NS)
    now = service.get_cluster().gpus[3].now
    found = shown({"node": now.host, "gpu": now.gpu_uuid, "span": "60"}, service)
    assert found["cluster-gpu-panel.style"] == {}
    names = [trace.name for trace in found["cluster-gpu.figure"].data]
    assert names == ["SM clock", "power", "temperature", "activity", "memory"]
    # A zoom of it is a time in the address, which other GPUs have too.
    assert found["cluster-gpu.figure"].layout.meta["zoom"] == "address"
    assert f"{now.host} · GPU {now.gpu_index}" in say(found["cluster-gpu-aside.children"])
    assert shown({"gpu": "GPU-gone"})["cluster-gpu-panel.style"] == {"display": "none"}


class CountingService(FakeService):
    """Counts what is read over a time."""

    def __init__(self) -> None:
        super().__init__(NOW_NS)
        self.reads: Counter[str] = Counter()

    def get_cluster_heatmap(
        self, field: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap:
        self.reads["heatmap"] += 1
        return super().get_cluster_heatmap(field, start_ns, end_ns, max_bins)

    def get_gpu_series(
        self, host: str, gpu_uuid: str, start_ns: int, end_ns: int, max_bins: int
    ) -> Mapping[str, GpuHeatmap]:
        self.reads["series"] += 1
        return super().get_gpu_series(host, gpu_uuid, start_ns, end_ns, max_bins)

    def list_host_processes(
        self, host: str | None, start_ns: int, end_ns: int, max_bins: int, limit: int = 100
    ) -> Sequence[ProcessMemory]:
        self.reads["processes"] += 1
        return super().list_host_processes(host, start_ns, end_ns, max_bins, limit)


def test_a_chosen_time_that_goes_on_fills_until_all_of_it_was_told() -> None:
    service = CountingService()
    reader = Reader(service)
    now, now_ms = service.get_cluster().gpus[3].now, NOW_NS // 10**6
    chosen = {"time": f"{now_ms - 60_000}-{now_ms + 30_000}"}
    view = make_view({"node": now.host, "gpu": now.gpu_uuid, **chosen})

    def look() -> list[object]:
        heat, hardware = HEAT_PANELS.read(reader, view), PANELS.read(reader, view)
        assert heat.heatmap.lanes and hardware.series and hardware.processes
        gpu, _, processes = PANELS.panels
        return [HEAT_PANELS.panels[0].key(heat), gpu.key(hardware), processes.key(hardware)]

    first = look()
    service.advance(15)
    later = look()
    assert all(one != other for one, other in zip(first, later, strict=True))
    assert service.reads == {"heatmap": 2, "series": 2, "processes": 2}
    service.advance(120)
    settled = look()
    service.advance(120)
    assert look() == settled
    assert service.reads == {"heatmap": 3, "series": 3, "processes": 3}


def test_processes_that_grow_come_first() -> None:
    found = shown({"node": "node-a1", "span": "60"})
    table = say(found["cluster-processes.children"])
    rows = table[table.index("WorkerDict") :]
    assert "WorkerDict.actor_rollout_update_actor node-a1 4000 46.0 GiB ▲ +6.0 GiB" in rows
    aside = say(found["cluster-processes-aside.children"])
    assert "of host memory in use" in aside
    assert "by these processes" in aside


class NoProcesses(FakeService):
    """Of which no agent told anything."""

    def list_host_processes(
        self, host: str | None, start_ns: int, end_ns: int, max_bins: int, limit: int = 100
    ) -> Sequence[ProcessMemory]:
        return ()


def test_what_is_missing_names_its_source() -> None:
    found = shown({}, NoProcesses(NOW_NS))
    assert "where Ray's workers run" in say(found["cluster-processes.children"])
    empty = shown({}, FakeService(NOW_NS, specs=()))
    assert "No run goes on" in say(empty["cluster-paces.children"])
