"""Whether NVIDIA's driver answers on this machine, asked of its library itself.

Sampling is the agent's; here one question is enough, and no package of the agent's is needed.
"""

import ctypes
from collections.abc import Callable, Mapping
from types import MappingProxyType

from longpole_server.cli.checks import Check

_LIBRARY = "libnvidia-ml.so.1"
_VERSION_BYTES = 96
_SUBJECT = "nvml"
# What NVML answers, and what cures it.
_CURES: Mapping[int, str] = MappingProxyType(
    {
        4: "let this user open /dev/nvidia*: its group, or the container's devices",
        9: "load the driver: modprobe nvidia, or look at dmesg why it does not load",
        15: "a GPU has fallen off the bus: look at dmesg for its XID, and drain the node",
        18: "library and kernel module are of different versions: reboot, or reload the module",
    }
)
_OTHER_CURE = "look at what `nvidia-smi` says, and at dmesg"


def examine_driver(load: Callable[[str], ctypes.CDLL] = ctypes.CDLL) -> Check:
    """Look at the driver.

    Args:
        load: Opens a library by name; raises `OSError` where there is none.
    """
    try:
        library = load(_LIBRARY)
    except OSError:
        return Check(
            "note",
            _SUBJECT,
            f"no NVIDIA driver here ({_LIBRARY} is not found)",
            "nothing to do where there are no GPUs; in a container, use NVIDIA's runtime",
        )
    status = int(library.nvmlInit_v2())
    if status != 0:
        cure = _CURES.get(status, _OTHER_CURE)
        return Check("bad", _SUBJECT, f"the driver says {_name(library, status)!r}", cure)
    try:
        return _count(library)
    finally:
        library.nvmlShutdown()


def _count(library: ctypes.CDLL) -> Check:
    count = ctypes.c_uint()
    status = int(library.nvmlDeviceGetCount_v2(ctypes.byref(count)))
    if status != 0:
        cure = _CURES.get(status, _OTHER_CURE)
        return Check("bad", _SUBJECT, f"the driver says {_name(library, status)!r}", cure)
    text = f"{count.value} GPUs, driver {_read_version(library)}"
    if count.value == 0:
        return Check("bad", _SUBJECT, text, _OTHER_CURE)
    return Check("ok", _SUBJECT, text)


def _read_version(library: ctypes.CDLL) -> str:
    version = ctypes.create_string_buffer(_VERSION_BYTES)
    status = int(library.nvmlSystemGetDriverVersion(version, _VERSION_BYTES))
    return version.value.decode("ascii", "replace") if status == 0 else "of unknown version"


def _name(library: ctypes.CDLL, status: int) -> str:
    library.nvmlErrorString.restype = ctypes.c_char_p
    text = library.nvmlErrorString(status)
    return text.decode("ascii", "replace") if isinstance(text, bytes) else f"error {status}"
