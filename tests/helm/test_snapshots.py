"""What the CronJob of snapshots does to the Kubernetes API."""

import importlib.util
from typing import Any

import pytest

from support.helm_child import CHART

_ENVIRONMENT = {"NAMESPACE": "obs", "CLAIM": "data-longpole-server-0", "KEEP": "2", "CLASS": "csi"}


def load() -> Any:
    path = CHART / "files" / "snapshot_volume.py"
    spec = importlib.util.spec_from_file_location("snapshot_volume", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class FakeApi:
    """Holds snapshots; a new one is ready at the second look, or never."""

    def __init__(self, becomes_ready: bool = True) -> None:
        self.snapshots: dict[str, Any] = {}
        self.looks = 0
        self._becomes_ready = becomes_ready

    def add(self, name: str, created: str, ready: bool = True) -> None:
        self.snapshots[name] = {
            "metadata": {"name": name, "creationTimestamp": created},
            "status": {"readyToUse": ready},
        }

    def ask(self, method: str, path: str, document: Any) -> Any:
        place, _, rest = path.partition("/namespaces/obs/volumesnapshots")
        assert place == "/apis/snapshot.storage.k8s.io/v1"
        if method == "POST":
            name = document["metadata"]["name"]
            self.add(name, "2026-11-30T03:17:00Z", ready=False)
            self.snapshots[name]["spec"] = document["spec"]
            self.snapshots[name]["metadata"]["labels"] = document["metadata"]["labels"]
            return self.snapshots[name]
        if method == "DELETE":
            return self.snapshots.pop(rest[1:])
        if rest.startswith("?"):
            assert rest == "?labelSelector=longpole.io/snapshots-of%3Ddata-longpole-server-0"
            return {"items": list(self.snapshots.values())}
        self.looks += 1
        if self._becomes_ready and self.looks == 2:
            self.snapshots[rest[1:]]["status"]["readyToUse"] = True
        return self.snapshots[rest[1:]]


def do_not_wait(_: float) -> None:
    pass


def run(api: FakeApi) -> int:
    return load().run(_ENVIRONMENT, api.ask, 1_796_008_620.0, do_not_wait)


def test_a_snapshot_is_made_and_the_oldest_goes(capsys: pytest.CaptureFixture[str]) -> None:
    api = FakeApi()
    api.add("old", "2026-11-28T03:17:00Z")
    api.add("older", "2026-11-27T03:17:00Z")
    api.add("broken", "2026-11-26T03:17:00Z", ready=False)
    assert run(api) == 0
    made = "data-longpole-server-0-20261130-031700"
    assert sorted(api.snapshots) == ["broken", made, "old"]
    assert api.snapshots[made]["spec"] == {
        "source": {"persistentVolumeClaimName": "data-longpole-server-0"},
        "volumeSnapshotClassName": "csi",
    }
    assert api.snapshots[made]["metadata"]["labels"] == {
        "longpole.io/snapshots-of": "data-longpole-server-0"
    }
    assert capsys.readouterr().out == f"deleted older\nmade {made}\n"


def test_where_none_gets_ready_the_old_ones_stay(capsys: pytest.CaptureFixture[str]) -> None:
    api = FakeApi(becomes_ready=False)
    for day in range(10, 20):
        api.add(f"day-{day}", f"2026-11-{day}T03:17:00Z")
    assert run(api) == 1
    assert len(api.snapshots) == 11
    assert "is not ready" in capsys.readouterr().out
