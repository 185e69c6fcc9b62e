"""A `libnvidia-ml.so.1` that tests build, and whose state they change while a program uses it.

The real `pynvml` finds it through `LD_LIBRARY_PATH`, so it must be used from a child process.
"""

import ctypes
import mmap
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("nvml_stub.c")

# Indices of `codes` and `num_calls`, in the order of the C source.
FEATURES = (
    "utilization", "memory_v2", "memory", "fields", "power", "energy", "temperature", "sm_clock",
    "events", "throttle", "processes", "gpm", "init", "shutdown", "xid", "ecc", "max_clock", "mig",
)  # fmt: skip
GPM_COLUMNS = ("sm", "tensor", "dram", "nvlink_rx", "nvlink_tx", "pcie_rx", "pcie_tx")
GPM_NUMBERS = (2, 5, 10, 60, 61, 21, 20)

NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
GPU_IS_LOST = 15
RESET_REQUIRED = 16
VERSION_MISMATCH = 18
UNKNOWN = 999

XID_EVENT = 8
ALL_LINKS = 0xFFFF_FFFF
POWER_INSTANT, ENERGY, MEMORY_TEMPERATURE = 186, 83, 82
NVLINK_TX, NVLINK_RX, NVLINK5_TX, NVLINK5_RX = 138, 139, 202, 204
PCIE_TX, PCIE_RX = 197, 198
ECC_CORRECTED, ECC_UNCORRECTED = 3, 4
REMAPPED_CORRECTED, REMAPPED_UNCORRECTED, REMAP_PENDING, REMAP_FAILED = 142, 143, 144, 145
_UNSIGNED_INT, _UNSIGNED_LONG_LONG = 1, 3

_MAX_DEVICES = 16
_MAX_PROCESSES = 4
_MAX_FIELDS = 24


class FieldState(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_uint32),
        ("code", ctypes.c_uint32),
        ("type", ctypes.c_uint32),
        ("scope", ctypes.c_uint32),
        ("value", ctypes.c_uint64),
        ("timestamp", ctypes.c_int64),
    )


class Device(ctypes.Structure):
    _fields_ = (
        ("uuid", ctypes.c_char * 80),
        ("name", ctypes.c_char * 80),
        ("error", ctypes.c_uint32),
        ("codes", ctypes.c_uint32 * len(FEATURES)),
        ("gpm_codes", ctypes.c_uint32 * len(GPM_COLUMNS)),
        ("utilization_percent", ctypes.c_uint32),
        ("power_milliwatts", ctypes.c_uint32),
        ("temperature", ctypes.c_uint32),
        ("sm_megahertz", ctypes.c_uint32),
        ("max_sm_megahertz", ctypes.c_uint32),
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
        ("event_type", ctypes.c_uint64),
        ("event_data", ctypes.c_uint64),
        ("ecc_uncorrected", ctypes.c_uint64),
        ("ecc_corrected", ctypes.c_uint64),
        ("num_fields", ctypes.c_uint32),
        ("fields", FieldState * _MAX_FIELDS),
        ("parent", ctypes.c_uint32),
        ("slot", ctypes.c_uint32),
        ("instance", ctypes.c_uint32),
        ("is_divided", ctypes.c_uint32),
    )

    def answer(self, code: int, *features: str) -> None:
        """Let some features answer an NVML error; 0 lets them work."""
        for feature in features:
            self.codes[FEATURES.index(feature)] = code

    def answer_gpm(self, code: int, *columns: str) -> None:
        """Let some activity counters answer an NVML error; 0 lets them work."""
        for column in columns:
            self.gpm_codes[GPM_COLUMNS.index(column)] = code

    def set_field(
        self,
        number: int,
        value: int,
        *,
        scope: int = 0,
        code: int = 0,
        kind: int = _UNSIGNED_LONG_LONG,
        at_us: int = 0,
    ) -> None:
        """Set a field value; fields that were never set are not supported."""
        place = next(
            (
                place
                for place in range(self.num_fields)
                if (self.fields[place].id, self.fields[place].scope) == (number, scope)
            ),
            self.num_fields,
        )
        self.fields[place] = FieldState(number, code, kind, scope, value, at_us)
        self.num_fields = max(self.num_fields, place + 1)

    def drop_fields(self, *numbers: int) -> None:
        """Let some fields not be supported any more."""
        for place in range(self.num_fields):
            if self.fields[place].id in numbers:
                self.fields[place].code = NOT_SUPPORTED

    def raise_xid(self, number: int) -> None:
        """Let the driver report an XID error."""
        self.event_data, self.event_type = number, XID_EVENT


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
        (directory / "libnvidia-ml.so.1").write_bytes(_build(tuple(omit)))

    @property
    def environment(self) -> dict[str, str]:
        """Variables under which a program finds this library."""
        return {"LD_LIBRARY_PATH": str(self.directory), "NVML_STUB_STATE": str(self._path)}

    def add_device(self) -> Device:
        """Add a GPU that works and supports everything, as an H100 does."""
        device = self._add(b"GPU-%08d" % self.state.num_devices, b"NVIDIA H100 80GB HBM3")
        device.utilization_percent = 97
        device.power_milliwatts = 600_000
        device.temperature = 61
        device.sm_megahertz, device.max_sm_megahertz = 1_755, 1_980
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
        device.set_field(POWER_INSTANT, 612_500, kind=_UNSIGNED_INT)
        device.set_field(ENERGY, 123_456_789)
        device.set_field(MEMORY_TEMPERATURE, 70, kind=_UNSIGNED_INT)
        device.set_field(ECC_CORRECTED, 7)
        device.set_field(ECC_UNCORRECTED, 0)
        device.set_field(REMAPPED_CORRECTED, 2, kind=_UNSIGNED_INT)
        device.set_field(REMAPPED_UNCORRECTED, 1, kind=_UNSIGNED_INT)
        device.set_field(REMAP_PENDING, 0, kind=_UNSIGNED_INT)
        device.set_field(REMAP_FAILED, 0, kind=_UNSIGNED_INT)
        return device

    def add_a100(self) -> Device:
        """Add a GPU of the generation before: no activity counters, no instant power."""
        device = self.add_device()
        device.name = b"NVIDIA A100-SXM4-80GB"
        device.answer(NOT_SUPPORTED, "gpm")
        device.drop_fields(POWER_INSTANT)
        device.set_field(NVLINK_RX, 0, scope=ALL_LINKS)
        device.set_field(NVLINK_TX, 0, scope=ALL_LINKS)
        device.set_field(PCIE_RX, 0)
        device.set_field(PCIE_TX, 0)
        return device

    def add_mig(self, gpu: Device, slot: int, profile: str = "1g.10gb") -> Device:
        """Divide a GPU, and add a part of it; the whole one supports less then."""
        gpu.is_divided = 1
        gpu.answer(NOT_SUPPORTED, "utilization")
        place = next(
            place
            for place in range(self.state.num_devices)
            if self.state.devices[place].uuid == gpu.uuid
        )
        name = gpu.name.decode() + f" MIG {profile}"
        part = self._add(b"MIG-%08d" % self.state.num_devices, name.encode())
        part.parent, part.slot, part.instance = place + 1, slot, 3 + slot
        part.memory_total, part.memory_used = 10_000_000_000, 4_000_000_000
        part.memory_free = part.memory_total - part.memory_used
        part.gpm[:] = [11.0, 12.0, 13.0, 0.0, 0.0, 1.0, 2.0]
        part.num_processes, part.pids[0], part.process_bytes[0] = 1, 5000 + slot, 3_000_000_000
        return part

    def add_recorded(self, recorded: Mapping[str, Any]) -> Device:
        """Add a GPU as a recording of a real one has it: its values and what it refuses.

        Args:
            recorded: A device of a document that `longpole agent --record-nvml` wrote.
        """
        device = self._add(recorded["uuid"].encode(), recorded["name"].encode())
        for feature in FEATURES:
            said = recorded["calls"].get(feature)
            if said is None:
                continue
            device.answer(said["code"], feature)
            members: Mapping[str, Any] = said["value"] or {}
            for member, value in members.items():
                setattr(device, member, value)
        for field in recorded["fields"]:
            device.set_field(
                field["number"], field["value"] or 0, scope=field["scope"], code=field["code"],
                kind=field["type"], at_us=field["timestamp_us"],
            )  # fmt: skip
        known = {metric["number"]: metric for metric in recorded["activity"]}
        for place, number in enumerate(GPM_NUMBERS):
            metric = known.get(number)
            device.gpm_codes[place] = NOT_SUPPORTED if metric is None else metric["code"]
            device.gpm[place] = 0.0 if metric is None else metric["value"] or 0.0
        return device

    def num_calls(self, feature: str) -> int:
        """How often the library was asked for a feature."""
        return self.state.num_calls[FEATURES.index(feature)]

    def reset_calls(self) -> None:
        for index in range(len(FEATURES)):
            self.state.num_calls[index] = 0

    def _add(self, uuid: bytes, name: bytes) -> Device:
        device = self.state.devices[self.state.num_devices]
        device.uuid, device.name = uuid, name
        self.state.num_devices += 1
        return device


@cache
def _build(omit: tuple[str, ...]) -> bytes:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise RuntimeError("the NVML tests need a C compiler: python -m tests.prepare installs gcc")
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory) / "library.so"
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
        return library.read_bytes()
