from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agent_nvml import NvmlChild
from support.nvml_stub import (
    GPU_IS_LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    NvmlStub,
)


@pytest.fixture
def stub(tmp_path: Path) -> NvmlStub:
    return NvmlStub(tmp_path / "nvml")


@pytest.fixture
def child(stub: NvmlStub, tmp_path: Path) -> Iterator[NvmlChild]:
    found = NvmlChild(stub.environment, tmp_path / "log")
    yield found
    found.close()


def test_mig_devices_are_devices_of_their_own(stub: NvmlStub, child: NvmlChild) -> None:
    gpu = stub.add_device()
    stub.add_mig(gpu, 0, "1g.10gb")
    stub.add_mig(gpu, 2, "3g.40gb")
    whole = stub.add_device()
    first = child.sample(0)
    second = child.sample(1)
    assert second.gpus.keys() == {"GPU-00000000", "MIG-00000001", "MIG-00000002", "GPU-00000003"}
    assert second.gpus["MIG-00000001"] == pytest.approx(
        {
            "hw.gpu.memory.usage": 4_000_000_000,
            "hw.gpu.memory.limit": 10_000_000_000,
            "hw.gpu.sm_active": 0.11,
            "hw.gpu.tensor_active": 0.12,
            "hw.gpu.dram_active": 0.13,
            "hw.gpu.nvlink.rx": 0.0,
            "hw.gpu.nvlink.tx": 0.0,
            "hw.gpu.pcie.rx": 1 << 20,
            "hw.gpu.pcie.tx": 2 << 20,
        }
    )
    assert second.attributes["MIG-00000002"] == {
        "gpu.index": 0,
        "hw.model": "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
        "hw.parent": "GPU-00000000",
        "hw.gpu.mig.profile": "3g.40gb",
    }
    assert "hw.gpu.utilization" not in second.gpus["GPU-00000000"]
    assert second.gpus["GPU-00000000"]["hw.power"] == 612.5
    # Programs run on the parts.
    assert first.processes == {
        "MIG-00000001": {5000: 3_000_000_000},
        "MIG-00000002": {5002: 3_000_000_000},
        "GPU-00000003": {4321: 69_000_000_000},
    }
    assert whole.is_divided == 0


def test_a_gpu_that_is_divided_anew(stub: NvmlStub, child: NvmlChild) -> None:
    gpu = stub.add_device()
    assert child.sample(0).gpus.keys() == {"GPU-00000000"}
    part = stub.add_mig(gpu, 0)
    assert child.sample(1).gpus.keys() == {"GPU-00000000"}, "looked for every ten seconds"
    assert child.sample(10).gpus.keys() == {"GPU-00000000", "MIG-00000001"}
    part.parent = 0xFF
    gpu.is_divided = 0
    sample = child.sample(20)
    assert sample.gpus.keys() == {"GPU-00000000"}
    assert sample.processes.keys() == {"GPU-00000000"}
    assert sample.trouble == "", "nothing is lost"


def test_a_part_that_tells_nothing_takes_nothing_down(stub: NvmlStub, child: NvmlChild) -> None:
    gpu = stub.add_device()
    part = stub.add_mig(gpu, 0)
    part.answer(NO_PERMISSION, "memory", "memory_v2", "gpm")
    child.sample(0)
    sample = child.sample(1)
    assert sample.gpus.keys() >= {"GPU-00000000"}
    assert sample.trouble == ""


def test_the_parts_of_an_a100_tell_their_memory_and_nothing_they_cannot(
    stub: NvmlStub, child: NvmlChild
) -> None:
    gpu = stub.add_a100()
    part = stub.add_mig(gpu, 0)
    part.answer(NOT_SUPPORTED, "gpm", "utilization", "power", "energy", "fields")
    child.sample(0)
    sample = child.sample(1)
    assert sample.gpus["MIG-00000001"] == {
        "hw.gpu.memory.usage": 4_000_000_000,
        "hw.gpu.memory.limit": 10_000_000_000,
    }
    assert "hw.gpu.sm_active" not in sample.gpus["GPU-00000000"]
    assert "hw.gpu.utilization" not in sample.gpus["GPU-00000000"]
    assert sample.gpus["GPU-00000000"].keys() >= {"hw.power", "hw.energy"}


@pytest.mark.parametrize("error", [GPU_IS_LOST, RESET_REQUIRED], ids=["lost", "reset"])
def test_a_divided_gpu_that_is_lost_takes_its_parts_along(
    stub: NvmlStub, tmp_path: Path, error: int
) -> None:
    gpu = stub.add_device()
    part = stub.add_mig(gpu, 0)
    stub.add_device()
    child = NvmlChild(stub.environment, tmp_path / "log", first_retry_s=5)
    try:
        assert len(child.sample(0).gpus) == 3
        gpu.error = part.error = error
        samples = [child.sample(at_s) for at_s in range(1, 9)]
        assert all(sample.gpus.keys() == {"GPU-00000002"} for sample in samples)
        assert "GPU-00000000" in samples[-1].trouble
        gpu.error = part.error = 0
        assert any(len(child.sample(at_s).gpus) == 3 for at_s in range(9, 60))
        assert child.sample(60).trouble == ""
    finally:
        child.close()
