"""What a recording of a machine says can be played again, with the same points."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.agent_nvml import NvmlChild
from support.nvml_stub import ALL_LINKS, NO_PERMISSION, NVLINK_RX, PCIE_TX, NvmlStub

COMMAND = (sys.executable, "-m", "longpole.cli", "agent", "--record-nvml")


def run(path: Path, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("recorded")
    stub = NvmlStub(directory / "nvml")
    stub.add_device()
    old = stub.add_a100()
    old.answer(NO_PERMISSION, "ecc", "processes")
    old.set_field(NVLINK_RX, 123_456, scope=ALL_LINKS, at_us=5)
    old.set_field(PCIE_TX, 9, at_us=5)
    done = run(directory / "recording.json", stub.environment)
    assert done.returncode == 0, done.stderr
    return json.loads((directory / "recording.json").read_text())


def test_a_recording_names_nobody_and_says_what_each_call_takes(recording: dict[str, Any]) -> None:
    assert recording["schema"] == "longpole.nvml/1"
    assert [device["uuid"] for device in recording["devices"]] == [
        "GPU-recorded-0", "GPU-recorded-1",
    ]  # fmt: skip
    assert "GPU-00000000" not in json.dumps(recording)
    assert "4321" not in json.dumps(recording), "nor any process"
    for device in recording["devices"]:
        assert all(call["us"]["least"] <= call["us"]["most"] for call in device["calls"].values())
    assert recording["sample_ms"]["median"] > 0


def test_a_recording_plays_with_the_same_points(recording: dict[str, Any], tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    for device in recording["devices"]:
        stub.add_recorded(device)
    child = NvmlChild(stub.environment, tmp_path / "log")
    child.sample(0)
    played = child.sample(1).gpus
    child.close()
    for index, device in enumerate(recording["devices"]):
        recorded = {
            point["metric"]: point["value"]
            for point in recording["points"]
            if point["gpu"] == index
        }
        assert played[device["uuid"]] == pytest.approx(recorded)
    assert recording["devices"][1]["calls"]["processes"]["code"] == NO_PERMISSION


def test_where_nothing_can_be_recorded_one_line_says_why(tmp_path: Path) -> None:
    done = run(tmp_path / "recording.json", {"LD_LIBRARY_PATH": str(tmp_path)})
    assert done.returncode == 2
    assert "nothing to record: no NVIDIA driver on this node" in done.stderr
    assert not (tmp_path / "recording.json").exists()
