# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Sequence
from typing import Any

from longpole_dashboards.pages.cluster_hardware import PANELS
from longpole_server.model.cluster import ProcessMemory
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
