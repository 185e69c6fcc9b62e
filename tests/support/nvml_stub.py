"""A `libnvidia-ml.so.1` that tests build, and whose state they change while a program uses it.

The real `pynvml` finds it through `LD_LIBRARY_PATH`, so it must be used from a child process.
"""

import ctypes
import mmap
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml_stub.c")

# Bits of `unsupported` and `failing`, and indices of `num_calls`, in the order of the C source.
FEATURES = (
    "utilization", "memory_v2", "memory", "power_instant", "power", "energy", "temperature",
    "sm_clock", "events", "throttle", "processes", "gpm", "init", "shutdown", "xid", "ecc",
)  # fmt: skip
GPM_COLUMNS = ("sm", "tensor", "dram", "nvlink_rx", "nvlink_tx", "pcie_rx", "pcie_tx")

DRIVER_NOT_LOADED = 9
GPU_IS_LOST = 15
UNKNOWN = 999

_MAX_DEVICES = 8
_MAX_PROCESSES = 4


class Device(ctypes.Structure):
    _fields_ = (
        ("uuid", ctypes.c_char * 80),
        ("name", ctypes.c_char * 80),
        ("error", ctypes.c_uint32),
        ("unsupported", ctypes.c_uint32),
        ("failing", ctypes.c_uint32),
        ("unsupported_gpm", ctypes.c_uint32),
        ("utilization_percent", ctypes.c_uint32),
        ("power_milliwatts", ctypes.c_uint32),
        ("power_average_milliwatts", ctypes.c_uint32),
        ("temperature", ctypes.c_uint32),
        ("sm_megahertz", ctypes.c_uint32),
        ("memory_total", ctypes.c_uint64),
        ("memory_reserved", ctypes.c_uint64),
        ("memory_free", ctypes.c_uint64),
        ("memory_used", ctypes.c_uint64),
        ("energy_millijoules", ctypes.c_uint64),
        ("clock_events", ctypes.c_uint64),
        ("gpm", ctypes.c_double * len(GPM_COLUMNS)),
        ("num_processes", ctypes.c_uint32),
        ("pids", ctypes.c_uint32 * _MAX_PROCESSES),
        ("process_bytes", ctypes.c_uint64 * _MAX_PROCESSES),
        ("xid", ctypes.c_uint64),
        ("ecc_uncorrected", ctypes.c_uint64),
    )


class State(ctypes.Structure):
    _fields_ = (
        ("init_error", ctypes.c_uint32),
        ("num_devices", ctypes.c_uint32),
        ("num_calls", ctypes.c_uint32 * len(FEATURES)),
        ("devices", Device * _MAX_DEVICES),
    )


class NvmlStub:
    """A built library and its state.

    Args:
        directory: Where both files go.
        omit: Functions that the library lacks.
    """

    def __init__(self, directory: Path, omit: Sequence[str] = ()) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / "state"
        self._path.write_bytes(bytes(ctypes.sizeof(State)))
        with self._path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self.state = State.from_buffer(self._memory)
        _build(directory / "libnvidia-ml.so.1", omit)

    @property
    def environment(self) -> dict[str, str]:
        """Variables under which a program finds this library."""
        return {"LD_LIBRARY_PATH": str(self.directory), "NVML_STUB_STATE": str(self._path)}

    def add_device(self) -> Device:
        """Add a GPU that works and supports everything."""
        index = self.state.num_devices
        device = self.state.devices[index]
        device.uuid = b"GPU-%08d" % index
        device.name = b"NVIDIA H100 80GB HBM3"
        device.utilization_percent = 97
        device.power_milliwatts = 612_500
        device.power_average_milliwatts = 600_000
        device.temperature = 61
        device.sm_megahertz = 1_755
        device.memory_total = 85_520_809_984
        device.memory_reserved = 500_000_000
        device.memory_used = 70_000_000_000
        device.memory_free = device.memory_total - device.memory_reserved - device.memory_used
        device.energy_millijoules = 123_456_789
        device.clock_events = 0x4
        device.gpm[:] = [81.0, 42.0, 33.0, 1000.0, 2000.0, 10.0, 20.0]
        device.num_processes = 1
        device.pids[0] = 4321
        device.process_bytes[0] = 69_000_000_000
        self.state.num_devices = index + 1
        return device

    def num_calls(self, feature: str) -> int:
        """How often the library was asked for a feature."""
        return self.state.num_calls[FEATURES.index(feature)]

    def reset_calls(self) -> None:
        for index in range(len(FEATURES)):
            self.state.num_calls[index] = 0


def bits(*features: str) -> int:
    """Return the value of `unsupported` or `failing` for some features."""
    return sum(1 << FEATURES.index(feature) for feature in features)


def gpm_bits(*columns: str) -> int:
    """Return the value of `unsupported_gpm` for some activity counters."""
    return sum(1 << GPM_COLUMNS.index(column) for column in columns)


def _build(library: Path, omit: Sequence[str]) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise RuntimeError("the NVML tests need a C compiler: python -m tests.prepare installs gcc")
    done = subprocess.run(
        [
            compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror",
            "-Wl,-soname,libnvidia-ml.so.1", *(f"-DOMIT_{name}" for name in omit),
            "-o", str(library), str(SOURCE),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the NVML stub does not build:\n{done.stderr}")
