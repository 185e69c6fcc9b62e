"""Rates from counters, as generations without activity counters have them."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from support.agent_nvml import NvmlChild
from support.nvml_stub import (
    ALL_LINKS,
    NVLINK5_RX,
    NVLINK5_TX,
    NVLINK_RX,
    NVLINK_TX,
    PCIE_RX,
    PCIE_TX,
    UNKNOWN,
    NvmlStub,
)

RATES = ("hw.gpu.nvlink.rx", "hw.gpu.nvlink.tx", "hw.gpu.pcie.rx", "hw.gpu.pcie.tx")
UUID = "GPU-00000000"
KIB = 1024

StartChild = Callable[..., NvmlChild]


@pytest.fixture
def stub(tmp_path: Path) -> NvmlStub:
    return NvmlStub(tmp_path / "nvml")


@pytest.fixture
def start(stub: NvmlStub, tmp_path: Path) -> Generator[StartChild]:
    children: list[NvmlChild] = []

    def make(**options: float) -> NvmlChild:
        children.append(NvmlChild(stub.environment, tmp_path / "log", **options))
        return children[-1]

    yield make
    for child in children:
        child.close()


def rates(child: NvmlChild, at_s: float) -> dict[str, float]:
    values = child.sample(at_s).gpus[UUID]
    return {name: value for name, value in values.items() if name in RATES}


def test_an_a100_tells_rates_without_a_call_that_blocks(stub: NvmlStub, start: StartChild) -> None:
    gpu = stub.add_a100()
    child = start()
    assert rates(child, 0) == {}, "one look at a counter is no rate"
    gpu.set_field(NVLINK_RX, 2_000_000, scope=ALL_LINKS)
    gpu.set_field(NVLINK_TX, 1_000_000, scope=ALL_LINKS)
    gpu.set_field(PCIE_RX, 30_000_000)
    gpu.set_field(PCIE_TX, 10_000_000)
    assert rates(child, 2) == pytest.approx(
        {
            "hw.gpu.nvlink.rx": 1_000_000 * KIB,
            "hw.gpu.nvlink.tx": 500_000 * KIB,
            "hw.gpu.pcie.rx": 15_000_000,
            "hw.gpu.pcie.tx": 5_000_000,
        }
    )
    values = child.sample(3).gpus[UUID]
    assert values["hw.power"] == 600.0, "the mean of a second, where this moment's is not told"
    assert "hw.gpu.sm_active" not in values


def test_a_counter_that_wrapped_or_was_reset_is_no_rate(stub: NvmlStub, start: StartChild) -> None:
    gpu = stub.add_a100()
    child = start()
    gpu.set_field(PCIE_RX, 4_000_000_000)
    rates(child, 0)
    gpu.set_field(PCIE_RX, 1_000)
    assert "hw.gpu.pcie.rx" not in rates(child, 1)
    gpu.set_field(PCIE_RX, 5_000)
    assert rates(child, 2)["hw.gpu.pcie.rx"] == 4_000


def test_the_driver_says_when_it_read_a_counter(stub: NvmlStub, start: StartChild) -> None:
    gpu = stub.add_a100()
    child = start()
    gpu.set_field(PCIE_RX, 1_000_000, at_us=10_000_000)
    rates(child, 0)
    assert "hw.gpu.pcie.rx" not in rates(child, 1), "the same look again"
    gpu.set_field(PCIE_RX, 3_000_000, at_us=12_000_000)
    assert rates(child, 1.5)["hw.gpu.pcie.rx"] == 1_000_000


def test_newer_links_count_in_other_fields(stub: NvmlStub, start: StartChild) -> None:
    gpu = stub.add_a100()
    gpu.drop_fields(NVLINK_RX, NVLINK_TX)
    gpu.set_field(NVLINK5_RX, 0, scope=ALL_LINKS)
    gpu.set_field(NVLINK5_TX, 0, scope=ALL_LINKS)
    child = start()
    rates(child, 0)
    gpu.set_field(NVLINK5_RX, 7_000, scope=ALL_LINKS)
    gpu.set_field(NVLINK5_TX, 9_000, scope=ALL_LINKS)
    found = rates(child, 1)
    assert (found["hw.gpu.nvlink.rx"], found["hw.gpu.nvlink.tx"]) == (7_000, 9_000)


def test_two_counters_of_one_rate_are_not_added(stub: NvmlStub, start: StartChild) -> None:
    gpu = stub.add_a100()
    gpu.set_field(NVLINK5_RX, 0, scope=ALL_LINKS)
    child = start()
    rates(child, 0)
    gpu.set_field(NVLINK_RX, 100, scope=ALL_LINKS)
    gpu.set_field(NVLINK5_RX, 900_000, scope=ALL_LINKS)
    assert rates(child, 1)["hw.gpu.nvlink.rx"] == 100 * KIB


def test_where_activity_counters_tell_rates_no_other_is_asked(
    stub: NvmlStub, start: StartChild
) -> None:
    gpu = stub.add_device()
    gpu.set_field(PCIE_RX, 0)
    child = start()
    rates(child, 0)
    gpu.set_field(PCIE_RX, 999)
    assert rates(child, 1)["hw.gpu.pcie.rx"] == 10 * (1 << 20)


def test_with_the_activity_counters_off_rates_are_still_told(
    stub: NvmlStub, start: StartChild
) -> None:
    gpu = stub.add_device()
    gpu.set_field(PCIE_RX, 0)
    child = start(with_gpm=False)
    rates(child, 0)
    gpu.set_field(PCIE_RX, 999)
    assert rates(child, 1) == {"hw.gpu.pcie.rx": 999}
    assert stub.num_calls("gpm") == 0


def test_all_fields_of_a_sample_are_one_call(stub: NvmlStub, start: StartChild) -> None:
    stub.add_a100()
    child = start()
    child.sample(0)
    stub.reset_calls()
    child.sample(1)
    assert stub.num_calls("fields") == 1
    child.sample(10)
    assert stub.num_calls("fields") == 3


def test_a_field_that_fails_for_once_is_asked_for_again(stub: NvmlStub, start: StartChild) -> None:
    gpu = stub.add_a100()
    child = start()
    rates(child, 0)
    gpu.set_field(PCIE_RX, 100, code=UNKNOWN)
    assert "hw.gpu.pcie.rx" not in rates(child, 1)
    gpu.set_field(PCIE_RX, 200, code=0)
    assert rates(child, 2)["hw.gpu.pcie.rx"] == 100
