import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_agent.sources.simulated import SimulatedSource, parse_gpus
from longpole_agent.sources.source import Point

SECOND = 1_000_000_000
LEVELS = {
    "utilization_ratio": 0.9,
    "sm_active_ratio": 0.5,
    "power_watts": 600.0,
    "memory_used_bytes": 70_000_000_001,
    "clocks_event_reasons": 4,
    "sm_clock_hz": 1.7e9,
}


def write(path: Path, *, num_gpus: int = 1, pid: int | None = 77, **levels: float) -> None:
    gpus = [
        {
            "index": index,
            "uuid": f"GPU-{index}",
            "model": "NVIDIA H100 80GB HBM3",
            "memory_total_bytes": 85_520_809_984,
            "pid": pid,
            "levels": {**LEVELS, **levels},
        }
        for index in range(num_gpus)
    ]
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps({"version": 1, "stage": "gen", "gpus": gpus}))
    temporary.replace(path)


def values(points: Any) -> dict[str, float | None]:
    return {point.metric: point.value for point in points}


def quiet() -> float:
    return 0.0


def test_levels_become_points_of_a_gpu(tmp_path: Path) -> None:
    path = tmp_path / "gpus.json"
    write(path)
    source = SimulatedSource(path, noise=quiet)
    points = source.sample(10 * SECOND)
    assert values(points) == {
        "hw.gpu.utilization": 0.9,
        "hw.gpu.sm_active": 0.5,
        "hw.power": 600.0,
        "hw.energy": 0.0,
        "hw.gpu.memory.usage": 70_000_000_001,
        "hw.gpu.memory.limit": 85_520_809_984,
        "hw.gpu.clocks_event_reasons": 4,
        "hw.gpu.clock.sm": 1.7e9,
        "process.gpu.memory.usage": 70_000_000_001,
    }
    by_name: dict[str, Point] = {point.metric: point for point in points}
    assert dict(by_name["hw.power"].attributes) == {
        "hw.id": "GPU-0",
        "gpu.index": 0,
        "hw.model": "NVIDIA H100 80GB HBM3",
    }
    assert dict(by_name["process.gpu.memory.usage"].attributes)["process.pid"] == 77
    assert isinstance(by_name["hw.gpu.memory.usage"].value, int)
    assert by_name["hw.energy"].kind == "counter"
    assert {point.ts_ns for point in points} == {10 * SECOND}


def test_a_replaced_file_is_seen_at_the_next_sample(tmp_path: Path) -> None:
    path = tmp_path / "gpus.json"
    source = SimulatedSource(path, noise=quiet)
    assert source.sample(SECOND) == []
    for at_s, level in enumerate([0.1, 0.7, 0.2], start=2):
        write(path, num_gpus=at_s, utilization_ratio=level)
        points = source.sample(at_s * SECOND)
        levels = [point.value for point in points if point.metric == "hw.gpu.utilization"]
        assert levels == [level] * at_s
    path.unlink()
    assert source.sample(9 * SECOND) == []


def test_energy_is_the_integral_of_power(tmp_path: Path) -> None:
    path = tmp_path / "gpus.json"
    write(path, power_watts=600.0)
    source = SimulatedSource(path, noise=quiet)
    source.sample(100 * SECOND)
    assert values(source.sample(102 * SECOND))["hw.energy"] == pytest.approx(1200.0)
    write(path, power_watts=100.0)
    assert values(source.sample(103 * SECOND))["hw.energy"] == pytest.approx(1300.0)
    # A clock that goes back takes no energy back.
    assert values(source.sample(50 * SECOND))["hw.energy"] == pytest.approx(1300.0)


def test_processes_come_every_ten_seconds(tmp_path: Path) -> None:
    path = tmp_path / "gpus.json"
    write(path)
    source = SimulatedSource(path)
    told = [
        "process.gpu.memory.usage" in values(source.sample(at_s * SECOND)) for at_s in range(1, 22)
    ]
    assert [at_s for at_s, was_told in enumerate(told, start=1) if was_told] == [1, 11, 21]
    write(path, pid=None)
    assert "process.gpu.memory.usage" not in values(source.sample(100 * SECOND))


@given(noise=st.floats(-1, 1), level=st.floats(0, 1))
def test_noise_keeps_ratios_in_bounds(
    tmp_path_factory: pytest.TempPathFactory, noise: float, level: float
) -> None:
    path = tmp_path_factory.mktemp("simulated") / "gpus.json"
    write(path, utilization_ratio=level)
    found = values(SimulatedSource(path, noise=lambda: noise).sample(SECOND))
    utilization = found["hw.gpu.utilization"]
    assert utilization is not None
    assert 0 <= utilization <= 1
    assert utilization == pytest.approx(level, abs=0.03)
    assert found["hw.gpu.memory.usage"] == 70_000_000_001


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting"),
        ("[]", "no file of simulated GPUs"),
        ("{}", "no file of simulated GPUs"),
        ('{"version": 2, "gpus": []}', "version 2 of simulated GPUs"),
        ('{"version": 1, "gpus": [{"index": 0, "uuid": "a"}]}', "levels"),
        ('{"version": 1, "gpus": [{"index": 0, "uuid": "a", "levels": {"x": 1}}]}', "columns: x"),
        ("\xff", "codec can't decode"),
    ],
)
def test_a_file_of_something_else_is_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        parse_gpus(text.encode("latin-1"))
    path = tmp_path / "gpus.json"
    path.write_bytes(text.encode("latin-1"))
    source = SimulatedSource(path)
    assert source.sample(1) == []
    assert source.sample(2) == []
    assert len(caplog.records) == 1
