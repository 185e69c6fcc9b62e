import json
import time
from pathlib import Path
from typing import Any

from longpole_sim import Cluster, make_run, plan_run
from longpole_sim.gpu_file import GpuFile
from longpole_sim.gpu_timeline import make_timeline
from longpole_sim.painter import Painter

CLUSTER = Cluster(nodes=2, gpus_per_node=2)


def read_until(path: Path, stage: str) -> dict[str, Any]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if path.exists():
            content: dict[str, Any] = json.loads(path.read_text())
            if content["stage"] == stage:
                return content
        time.sleep(0.02)
    raise AssertionError(f"{path} never showed {stage}")


def test_files_follow_the_timeline(tmp_path: Path) -> None:
    # Slow enough for any reader to see its first stage, and fast enough to come to its last.
    slow, fast = (make_run("hang", cluster=CLUSTER, speed=speed) for speed in (0.1, 10.0))
    files = [GpuFile(tmp_path / f"{node}.json", CLUSTER, node) for node in range(2)]
    painter = Painter(CLUSTER, files, {gpu: 101 + gpu.node for gpu in CLUSTER.gpus})
    try:
        assert not list(tmp_path.iterdir())
        painter.show(make_timeline(slow, list(plan_run(slow))[-1]))
        for node, file in enumerate(files):
            gen = read_until(file.path, "gen")
            assert [gpu["pid"] for gpu in gen["gpus"]] == [101 + node] * 2
        painter.show(make_timeline(fast, list(plan_run(fast))[-1]))
        hang = read_until(files[1].path, "update_actor")
        assert len(hang["gpus"]) == 2
    finally:
        painter.close()


def test_after_closing_the_files_stay_as_they_are(tmp_path: Path) -> None:
    run = make_run(cluster=CLUSTER, speed=0.1)
    file = GpuFile(tmp_path / "0.json", CLUSTER, 0)
    painter = Painter(CLUSTER, [file], {})
    painter.show(make_timeline(run, next(plan_run(run))))
    read_until(file.path, "gen")
    painter.close()
    before = file.path.stat().st_mtime_ns
    painter.show(make_timeline(run, next(plan_run(run))))
    assert file.path.stat().st_mtime_ns == before
