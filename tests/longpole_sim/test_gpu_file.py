import json
from dataclasses import fields
from pathlib import Path

from longpole.conventions.gpus import GPU_METRICS
from longpole_sim.cluster import GPU_MEMORY_BYTES, Cluster
from longpole_sim.gpu_file import GpuFile
from longpole_sim.levels import GpuLevels

CLUSTER = Cluster(nodes=1, gpus_per_node=2)


def test_levels_are_columns_of_gpu_samples() -> None:
    columns = {metric.column for metric in GPU_METRICS}
    assert {field.name for field in fields(GpuLevels)} <= columns


def test_the_file_holds_what_the_agent_reads(tmp_path: Path) -> None:
    path = tmp_path / "gpus.json"
    GpuFile(path, CLUSTER, 0).write(0.0, "gen", {0: GpuLevels(), 1: GpuLevels()}, {0: 42})
    content = json.loads(path.read_text())
    assert content["version"] == 1
    assert content["stage"] == "gen"
    assert [gpu["index"] for gpu in content["gpus"]] == [0, 1]
    first = content["gpus"][0]
    assert first["uuid"] == CLUSTER.node_gpu_uuids(0)[0]
    assert first["memory_total_bytes"] == GPU_MEMORY_BYTES
    assert first["pid"] == 42
    assert isinstance(first["levels"]["memory_used_bytes"], int)
    assert [item.name for item in tmp_path.iterdir()] == ["gpus.json"]


def test_without_a_process_there_is_no_pid(tmp_path: Path) -> None:
    path = tmp_path / "gpus.json"
    GpuFile(path, CLUSTER, 0).write(0.0, "", {0: GpuLevels()})
    assert "pid" not in json.loads(path.read_text())["gpus"][0]


def test_temperature_follows_power_slowly(tmp_path: Path) -> None:
    path = tmp_path / "gpus.json"
    file = GpuFile(path, CLUSTER, 0)

    def celsius(now_s: float, watts: float) -> float:
        file.write(now_s, "", {0: GpuLevels(power_watts=watts)})
        return json.loads(path.read_text())["gpus"][0]["levels"]["temperature_celsius"]

    cold = celsius(0.0, 120.0)
    warming = celsius(5.0, 600.0)
    warm = celsius(200.0, 600.0)
    assert cold < warming < warm < 75


def test_chips_draw_slightly_different_power(tmp_path: Path) -> None:
    path = tmp_path / "gpus.json"
    GpuFile(path, CLUSTER, 0).write(0.0, "", dict.fromkeys((0, 1), GpuLevels(power_watts=500.0)))
    watts = [gpu["levels"]["power_watts"] for gpu in json.loads(path.read_text())["gpus"]]
    assert watts[0] != watts[1]
    assert all(460 < value < 540 for value in watts)
