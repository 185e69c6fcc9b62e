import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from longpole.conventions.gpus import GPU_FAULTS, GPU_TRAITS
from support.agent_nvml import NvmlChild
from support.nvml_stub import (
    DRIVER_NOT_LOADED,
    ECC_UNCORRECTED,
    ENERGY,
    GPU_IS_LOST,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    POWER_INSTANT,
    REMAPPED_UNCORRECTED,
    UNKNOWN,
    VERSION_MISMATCH,
    NvmlStub,
)

MakeChild = Callable[..., NvmlChild]
MIB = 1 << 20
RARE = {metric.metric for metric in (*GPU_TRAITS, *GPU_FAULTS)}


@pytest.fixture
def make_child(tmp_path: Path) -> Iterator[MakeChild]:
    children: list[NvmlChild] = []

    def make(environment: dict[str, str], **options: float) -> NvmlChild:
        children.append(NvmlChild(environment, tmp_path / "log", **options))
        return children[-1]

    yield make
    for child in children:
        child.close()


def test_every_metric_of_a_gpu_in_its_unit(tmp_path: Path, make_child: MakeChild) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    stub.add_device()
    child = make_child(stub.environment)
    first = child.sample(0)
    second = child.sample(1)
    assert second.gpus["GPU-00000000"] == pytest.approx(
        {
            "hw.gpu.utilization": 0.97,
            "hw.gpu.memory.usage": 70_000_000_000,
            "hw.gpu.memory.limit": 85_520_809_984,
            "hw.power": 612.5,
            "hw.energy": 123_456.789,
            "hw.temperature": 61.0,
            "hw.gpu.clock.sm": 1.755e9,
            "hw.gpu.clocks_event_reasons": 4,
            "hw.gpu.sm_active": 0.81,
            "hw.gpu.tensor_active": 0.42,
            "hw.gpu.dram_active": 0.33,
            "hw.gpu.nvlink.rx": 1000 * MIB,
            "hw.gpu.nvlink.tx": 2000 * MIB,
            "hw.gpu.pcie.rx": 10 * MIB,
            "hw.gpu.pcie.tx": 20 * MIB,
        }
    )
    rarely = {name: value for name, value in first.gpus["GPU-00000000"].items() if name in RARE}
    assert rarely == pytest.approx(
        {
            "hw.gpu.ecc_uncorrected": 0,
            "hw.gpu.ecc_corrected": 7,
            "hw.gpu.remapped_rows": 3,
            "hw.gpu.remapped_rows.pending": 0,
            "hw.gpu.remapped_rows.failed": 0,
            "hw.gpu.memory.temperature": 70,
            "hw.gpu.clock.sm.max": 1.98e9,
            "hw.gpu.xid": 0,
        }
    )
    # Activity is an average between two samples: the first has none.
    activity = {name for name in second.gpus["GPU-00000000"] if "active" in name or ".rx" in name}
    assert activity.isdisjoint(first.gpus["GPU-00000000"])
    assert second.attributes["GPU-00000000"] == {
        "gpu.index": 0,
        "hw.model": "NVIDIA H100 80GB HBM3",
    }


def test_changes_are_seen_live_and_per_gpu(tmp_path: Path, make_child: MakeChild) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpus = [stub.add_device() for _ in range(3)]
    child = make_child(stub.environment)
    for at_s, levels in enumerate([(0, 50, 100), (7, 8, 9)]):
        for gpu, level in zip(gpus, levels, strict=True):
            gpu.utilization_percent = level
        sample = child.sample(at_s)
        assert [gpu["hw.gpu.utilization"] for gpu in sample.gpus.values()] == pytest.approx(
            [level / 100 for level in levels]
        )


def sample_until_xid(child: NvmlChild, uuid: str, at_s: float) -> dict[str, float]:
    """The thread that hears of errors is not in step with samples."""
    for _ in range(600):
        values = child.sample(at_s).gpus.get(uuid, {})
        if values.get("hw.gpu.xid"):
            return values
        time.sleep(0.1)
    raise AssertionError("no XID error was told")


def test_errors_that_the_driver_reports_are_sent_once(
    tmp_path: Path, make_child: MakeChild
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpus = [stub.add_device() for _ in range(2)]
    child = make_child(stub.environment)
    assert child.sample(0).gpus["GPU-00000001"]["hw.gpu.xid"] == 0, "it would be heard of"
    assert "hw.gpu.xid" not in child.sample(1).gpus["GPU-00000001"]
    gpus[0].set_field(ECC_UNCORRECTED, 3)
    gpus[1].raise_xid(79)
    gpus[1].error = GPU_IS_LOST
    fallen = sample_until_xid(child, "GPU-00000001", 2)
    assert fallen == {"hw.gpu.xid": 79}, "told though it answers no more"
    assert child.sample(10).gpus["GPU-00000000"]["hw.gpu.ecc_uncorrected"] == 3
    assert "GPU-00000001" not in child.sample(11).gpus
    assert "GPU-00000001" not in child.sample(20).gpus


def test_an_error_that_came_right_before_a_new_beginning_is_told(
    tmp_path: Path, make_child: MakeChild
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    stub.add_device()
    other = stub.add_device()
    child = make_child(stub.environment, first_retry_s=5)
    child.sample(0)
    other.error = GPU_IS_LOST
    child.sample(1)
    other.raise_xid(79)
    # NVML begins anew with this sample, and whoever listens with it.
    values = sample_until_xid(child, "GPU-00000001", 6)
    assert values["hw.gpu.xid"] == 79


def test_a_driver_without_events_or_ecc_is_no_trouble(
    tmp_path: Path, make_child: MakeChild
) -> None:
    stub = NvmlStub(tmp_path / "nvml", omit=["nvmlEventSetCreate"])
    gpu = stub.add_device()
    gpu.answer(NOT_SUPPORTED, "ecc")
    gpu.drop_fields(ECC_UNCORRECTED)
    gpu.raise_xid(79)
    sample = make_child(stub.environment).sample(0)
    assert sample.gpus["GPU-00000000"].keys().isdisjoint({"hw.gpu.xid", "hw.gpu.ecc_uncorrected"})


def test_memory_errors_are_asked_for_one_by_one_where_fields_do_not_tell(
    tmp_path: Path, make_child: MakeChild
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpu = stub.add_device()
    gpu.drop_fields(ECC_UNCORRECTED)
    gpu.ecc_uncorrected = 4
    child = make_child(stub.environment)
    child.sample(0)
    assert child.sample(10).gpus["GPU-00000000"]["hw.gpu.ecc_uncorrected"] == 4


def test_a_part_of_a_sum_is_not_told_as_the_sum(tmp_path: Path, make_child: MakeChild) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpu = stub.add_device()
    gpu.set_field(REMAPPED_UNCORRECTED, 0, code=UNKNOWN)
    child = make_child(stub.environment)
    assert "hw.gpu.remapped_rows" not in child.sample(0).gpus["GPU-00000000"]
    gpu.set_field(REMAPPED_UNCORRECTED, 1, code=0, kind=1)
    assert child.sample(10).gpus["GPU-00000000"]["hw.gpu.remapped_rows"] == 3


def test_processes_come_every_ten_seconds(tmp_path: Path, make_child: MakeChild) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpu = stub.add_device()
    gpu.num_processes = 2
    gpu.pids[1] = 99
    gpu.process_bytes[1] = 0xFFFF_FFFF_FFFF_FFFF  # NVML: not available
    child = make_child(stub.environment)
    assert child.sample(0).processes == {"GPU-00000000": {4321: 69_000_000_000, 99: None}}
    assert child.sample(1).processes == {}
    assert child.sample(9).processes == {}
    gpu.num_processes = 0
    assert child.sample(10).processes == {}
    gpu.num_processes = 1
    assert child.sample(20).processes == {"GPU-00000000": {4321: 69_000_000_000}}


def test_what_is_not_supported_is_asked_once_and_left_out(
    tmp_path: Path, make_child: MakeChild
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpu = stub.add_device()
    gpu.answer(NOT_SUPPORTED, "utilization", "energy", "sm_clock", "max_clock", "xid", "mig")
    gpu.answer(NO_PERMISSION, "processes", "ecc", "fields")
    gpu.answer(NOT_SUPPORTED, "gpm")
    child = make_child(stub.environment)
    for at_s in (0, 10, 20):
        sample = child.sample(at_s)
        assert sample.gpus["GPU-00000000"].keys() == {
            "hw.gpu.memory.usage",
            "hw.gpu.memory.limit",
            "hw.power",
            "hw.temperature",
            "hw.gpu.clocks_event_reasons",
        }
        assert sample.processes == {}
    assert stub.num_calls("utilization") == 1
    assert stub.num_calls("energy") == 1
    assert stub.num_calls("sm_clock") == 1
    assert stub.num_calls("processes") == 2  # two versions of the call
    assert stub.num_calls("fields") == 2  # those of each sample, and those of ten seconds
    assert stub.num_calls("gpm") == 0
    assert stub.num_calls("temperature") == 3


def test_the_next_best_way_is_used_where_the_best_is_not_supported(
    tmp_path: Path, make_child: MakeChild
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpu = stub.add_device()
    gpu.answer(NOT_SUPPORTED, "memory_v2")
    gpu.drop_fields(POWER_INSTANT, ENERGY)
    child = make_child(stub.environment)
    values = child.sample(0).gpus["GPU-00000000"]
    assert values["hw.energy"] == 123_456.789
    assert values["hw.power"] == 600.0
    assert values["hw.gpu.memory.usage"] == 70_500_000_000  # version 1 counts what is reserved


def test_an_older_driver_without_the_newer_functions(tmp_path: Path, make_child: MakeChild) -> None:
    stub = NvmlStub(
        tmp_path / "nvml",
        omit=(
            "nvmlDeviceGetMemoryInfo_v2",
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetComputeRunningProcesses_v3",
            "nvmlDeviceGetFieldValues",
            "nvmlDeviceGetMigMode",
            "nvmlGpmQueryDeviceSupport",
        ),
    )
    stub.add_device()
    child = make_child(stub.environment)
    child.sample(0)
    sample = child.sample(10)
    values = sample.gpus["GPU-00000000"]
    assert values["hw.gpu.memory.usage"] == 70_500_000_000
    assert values["hw.gpu.clocks_event_reasons"] == 4
    assert "hw.gpu.sm_active" not in values
    assert sample.processes == {"GPU-00000000": {4321: 69_000_000_000}}


def test_single_activity_counters_may_be_missing(tmp_path: Path, make_child: MakeChild) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpu = stub.add_device()
    gpu.answer_gpm(NOT_SUPPORTED, "nvlink_rx", "nvlink_tx")
    gpu.gpm[1] = float("nan")
    child = make_child(stub.environment)
    child.sample(0)
    values = child.sample(1).gpus["GPU-00000000"]
    assert {"hw.gpu.sm_active", "hw.gpu.dram_active", "hw.gpu.pcie.rx"} <= values.keys()
    assert values.keys().isdisjoint(
        {"hw.gpu.nvlink.rx", "hw.gpu.nvlink.tx", "hw.gpu.tensor_active"}
    )


def test_activity_counters_can_be_left_to_others(tmp_path: Path, make_child: MakeChild) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    stub.add_device()
    child = make_child(stub.environment, with_gpm=False)
    child.sample(0)
    assert "hw.gpu.sm_active" not in child.sample(1).gpus["GPU-00000000"]
    assert stub.num_calls("gpm") == 0


def test_activity_is_averaged_over_no_less_than_nvml_wants(
    tmp_path: Path, make_child: MakeChild
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    stub.add_device()
    child = make_child(stub.environment)
    told = [
        "hw.gpu.sm_active" in child.sample(number * 0.04).gpus["GPU-00000000"]
        for number in range(7)
    ]
    assert told == [False, False, False, True, False, False, True]


def test_a_clock_that_is_set_back_stops_nothing(tmp_path: Path, make_child: MakeChild) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    stub.add_device()
    child = make_child(stub.environment)
    assert child.sample(5000).processes
    assert not child.sample(5001).processes
    sample = child.sample(1000)
    assert sample.processes
    assert "hw.gpu.sm_active" in sample.gpus["GPU-00000000"]
    assert not child.sample(1009).processes


def test_a_lost_gpu_drops_out_and_comes_back(tmp_path: Path, make_child: MakeChild) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    stub.add_device()
    broken = stub.add_device()
    child = make_child(stub.environment, first_retry_s=5)
    assert len(child.sample(0).gpus) == 2
    broken.error = GPU_IS_LOST
    for at_s in range(1, 9):
        assert child.sample(at_s).gpus.keys() == {"GPU-00000000"}
    broken.error = 0
    back_at = next(at_s for at_s in range(9, 60) if len(child.sample(at_s).gpus) == 2)
    assert back_at <= 16  # tried again after 5 s, then after 10 s
    assert child.log.count("GPU-00000001 is lost") == 1
    assert child.log.count("GPU GPU-00000001 is back") == 1
    # All is well again: nothing is initialised any more.
    stub.reset_calls()
    for at_s in range(60, 70):
        assert len(child.sample(at_s).gpus) == 2
    assert stub.num_calls("init") == 0


def test_a_gpu_lost_for_long_is_looked_for_ever_more_rarely(
    tmp_path: Path, make_child: MakeChild
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    stub.add_device()
    broken = stub.add_device()
    child = make_child(stub.environment, first_retry_s=5, max_retry_s=60)
    child.sample(0)
    broken.error = GPU_IS_LOST
    stub.reset_calls()
    for at_s in range(1, 600):
        assert len(child.sample(at_s).gpus) == 1
    assert 10 <= stub.num_calls("init") <= 14
    assert stub.num_calls("init") == stub.num_calls("shutdown")
    assert len(child.log.splitlines()) <= 4


def test_a_driver_that_went_away_is_found_again(tmp_path: Path, make_child: MakeChild) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpu = stub.add_device()
    child = make_child(stub.environment, first_retry_s=5)
    assert len(child.sample(0).gpus) == 1
    gpu.error = UNKNOWN  # what a container sees that lost its GPUs
    stub.state.init_error = UNKNOWN
    for at_s in range(1, 30):
        assert child.sample(at_s).gpus == {}
    gpu.error = stub.state.init_error = 0
    assert any(child.sample(at_s).gpus for at_s in range(30, 100))
    assert "a container that lost its GPUs needs a restart" in child.log


def test_a_value_that_fails_now_and_then_is_missing_just_then(
    tmp_path: Path, make_child: MakeChild
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpu = stub.add_device()
    child = make_child(stub.environment)
    for at_s, fails in enumerate([False, True, False]):
        gpu.answer(UNKNOWN if fails else 0, "temperature")
        gpu.answer(NOT_FOUND if fails else 0, "gpm")
        values = child.sample(at_s).gpus["GPU-00000000"]
        assert ("hw.temperature" in values) is not fails
        assert values["hw.power"] == 612.5
    values = child.sample(3).gpus["GPU-00000000"]
    assert "hw.gpu.sm_active" in values  # since the sample before the one that failed


def test_without_a_library_there_is_one_line(tmp_path: Path, make_child: MakeChild) -> None:
    child = make_child({"LD_LIBRARY_PATH": str(tmp_path)})
    for at_s in range(0, 300, 10):
        assert child.sample(at_s).gpus == {}
    lines = child.log.splitlines()
    assert lines == [
        "WARNING no GPUs: no NVIDIA driver on this node (libnvidia-ml.so.1); going on without"
    ]


def test_a_driver_that_is_loaded_later_is_found(tmp_path: Path, make_child: MakeChild) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    stub.add_device()
    stub.state.init_error = DRIVER_NOT_LOADED
    child = make_child(stub.environment, first_retry_s=5)
    for at_s in range(12):
        assert child.sample(at_s).gpus == {}
    assert child.log.count("the NVIDIA driver is not loaded") == 1
    stub.state.init_error = 0
    assert any(child.sample(at_s).gpus for at_s in range(12, 100))
    assert "1 of 1 GPUs found" in child.log


def test_what_a_driver_refuses_to_those_without_rights_is_left_out(
    tmp_path: Path, make_child: MakeChild
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    stub.add_device().answer(NO_PERMISSION, "processes", "gpm")
    child = make_child(stub.environment)
    child.sample(0)
    sample = child.sample(10)
    assert sample.processes == {}
    assert "hw.gpu.sm_active" not in sample.gpus["GPU-00000000"]
    assert sample.gpus["GPU-00000000"]["hw.power"] == 612.5


def test_whether_gpus_can_be_sampled_is_told(tmp_path: Path, make_child: MakeChild) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    stub.add_device()
    broken = stub.add_device()
    child = make_child(stub.environment, first_retry_s=5)
    assert child.sample(0).trouble == ""
    broken.error = GPU_IS_LOST
    assert "GPU-00000001 is lost" in child.sample(1).trouble
    broken.error = 0
    assert any(not child.sample(at_s).trouble for at_s in range(2, 60))


def test_a_container_that_lost_its_gpus_asks_for_a_restart(
    tmp_path: Path, make_child: MakeChild
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpus = [stub.add_device() for _ in range(2)]
    child = make_child(stub.environment, first_retry_s=5, max_retry_s=20)
    assert not child.sample(0).needs_restart
    for gpu in gpus:
        gpu.error = UNKNOWN
    sample = child.sample(1)
    assert (bool(sample.trouble), sample.needs_restart) == (True, False), "it may be a moment"
    sample = [child.sample(at_s) for at_s in range(2, 200)][-1]
    assert sample.trouble
    assert sample.needs_restart
    assert sample.gpus == {}
    for gpu in gpus:
        gpu.error = 0
    back = [child.sample(at_s) for at_s in range(200, 240)][-1]
    assert (back.trouble, back.needs_restart, len(back.gpus)) == ("", False, 2)


def test_a_driver_that_was_renewed_under_the_container_asks_for_a_restart(
    tmp_path: Path, make_child: MakeChild
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpu = stub.add_device()
    child = make_child(stub.environment, first_retry_s=5, max_retry_s=20)
    child.sample(0)
    gpu.error = stub.state.init_error = VERSION_MISMATCH
    last = [child.sample(at_s) for at_s in range(1, 200)][-1]
    assert last.needs_restart
    assert "of different versions" in last.trouble


def test_a_driver_that_is_being_restarted_is_waited_for(
    tmp_path: Path, make_child: MakeChild
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpu = stub.add_device()
    child = make_child(stub.environment, first_retry_s=5, max_retry_s=20)
    child.sample(0)
    gpu.error = stub.state.init_error = DRIVER_NOT_LOADED
    last = [child.sample(at_s) for at_s in range(1, 200)][-1]
    assert "not loaded" in last.trouble
    assert not last.needs_restart, "a restart of the agent does not load a driver"
    gpu.error = stub.state.init_error = 0
    assert any(child.sample(at_s).gpus for at_s in range(200, 240))
    assert child.sample(240).trouble == ""


def test_a_node_without_gpus_is_in_no_trouble(tmp_path: Path, make_child: MakeChild) -> None:
    child = make_child({"LD_LIBRARY_PATH": str(tmp_path)})
    assert child.sample(0).trouble == ""


def test_a_driver_that_refuses_from_the_beginning_is_trouble(
    tmp_path: Path, make_child: MakeChild
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    stub.state.init_error = VERSION_MISMATCH
    sample = make_child(stub.environment).sample(0)
    assert "of different versions" in sample.trouble
    assert not sample.needs_restart
