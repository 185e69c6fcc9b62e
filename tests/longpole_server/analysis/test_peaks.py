import pytest

from longpole_server.analysis.peaks import DEVICE_NAMES, find_memory_peak, find_peak


@pytest.mark.parametrize(
    ("name", "bf16", "fp8"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12, 1978e12),
        ("NVIDIA H200", 989e12, 1978e12),
        ("NVIDIA H20", 148e12, 296e12),
        ("NVIDIA H20-3e", 148e12, 296e12),
        ("NVIDIA GH200 480GB", 989e12, 1978e12),
        ("NVIDIA H100 PCIe", 756e12, 1513e12),
        ("NVIDIA A100-SXM4-80GB", 312e12, None),
        ("NVIDIA L40S", 362.05e12, 733e12),
        ("NVIDIA L40", 181.05e12, 362e12),
        ("NVIDIA B200", 2250e12, 4500e12),
        ("NVIDIA GB200", 2500e12, 5000e12),
    ],
)
def test_device_names(name: str, bf16: float, fp8: float | None):
    assert find_peak(name) == bf16
    assert find_peak(name, "fp8") == fp8


@pytest.mark.parametrize(
    "name", [None, "", "NVIDIA H2", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "Some GPU", "H1000"]
)
def test_unknown_device_has_no_peak(name: str | None):
    assert find_peak(name) is None
    assert find_memory_peak(name) is None


@pytest.mark.parametrize(
    ("name", "bandwidth"),
    [
        ("NVIDIA H100 80GB HBM3", 3.35e12),
        ("NVIDIA H200", 4.8e12),
        ("NVIDIA H20", 4.0e12),
        ("NVIDIA A100-SXM4-80GB", 2.039e12),
        ("NVIDIA A100-SXM4-40GB", 1.555e12),
        ("A100", None),
    ],
)
def test_memory_bandwidth(name: str, bandwidth: float | None):
    assert find_memory_peak(name) == (None if bandwidth is None else pytest.approx(bandwidth))


@pytest.mark.parametrize("name", DEVICE_NAMES)
def test_each_device_has_a_rate_and_a_byte_moves_slower_than_it_computes(name: str):
    peak, memory = find_peak(name), find_memory_peak(name)
    assert peak is not None
    assert memory is None or 30 < peak / memory < 700
