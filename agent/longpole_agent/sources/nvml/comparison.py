"""What the agent reads of this machine's GPUs beside what `nvidia-smi` says of them.

Both ask the same driver at about the same time, so what differs by more than a moment explains is a
unit, a scale or a counter that one of them reads wrongly.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from longpole.conventions.gpus import GPU_COLUMN_OF_METRIC, HW_ID, HW_PARENT
from longpole_agent.sources.nvml.source import NvmlSource
from longpole_agent.sources.source import Point

_NUM_LOOKS = 10
_INTERVAL_S = 1.0
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class _Value:
    """A value that both tell.

    Attributes:
        column: The agent's.
        fields: How `nvidia-smi` names it, the newest name first.
        scale: From its unit to the column's.
        shown: From the column's unit to the one that people read.
        unit: That one.
        slack: What a moment explains, in that unit; `slack_ratio`: and of the value.
    """

    column: str
    fields: tuple[str, ...]
    scale: float
    shown: float
    unit: str
    slack: float
    slack_ratio: float = 0.0


_VALUES = (
    _Value("utilization_ratio", ("utilization.gpu",), 0.01, 100.0, "%", 15.0),
    _Value("memory_used_bytes", ("memory.used",), _MIB, 1 / _MIB, "MiB", 64.0, 0.02),
    _Value("memory_total_bytes", ("memory.total",), _MIB, 1 / _MIB, "MiB", 1.0),
    _Value("power_watts", ("power.draw.instant", "power.draw"), 1.0, 1.0, "W", 15.0, 0.15),
    _Value("temperature_celsius", ("temperature.gpu",), 1.0, 1.0, "°C", 3.0),
    _Value("sm_clock_hz", ("clocks.sm",), 1e6, 1e-6, "MHz", 60.0, 0.05),
    _Value("sm_clock_max_hz", ("clocks.max.sm",), 1e6, 1e-6, "MHz", 0.5),
    _Value(
        "ecc_uncorrected_errors", ("ecc.errors.uncorrected.volatile.total",), 1.0, 1.0, "", 0.5
    ),
)  # fmt: skip

# GPU and column -> values of all looks.
_Readings = dict[tuple[str, str], list[float]]


@dataclass(frozen=True, slots=True)
class Compared:
    """One value of one GPU, medians over all looks. None: not told.

    Attributes:
        is_alike: Whether both tell about the same, or one of them nothing.
    """

    gpu_uuid: str
    name: str
    unit: str
    nvidia_smi: float | None
    longpole: float | None
    is_alike: bool


class NothingToCompareError(Exception):
    """There is no `nvidia-smi`, or no GPU."""


def compare(
    ask: Callable[[Sequence[str]], str],
    pause: Callable[[float], None] = time.sleep,
    now_ns: Callable[[], int] = time.time_ns,
    num_looks: int = _NUM_LOOKS,
) -> list[Compared]:
    """Look several times, by both, and return every value of every GPU; takes some seconds.

    Args:
        ask: Runs `nvidia-smi` with some arguments and returns what it prints; raises `OSError`
            where there is none, `ValueError` with its words where it fails.
        pause: Waits some seconds.
        now_ns: Wall clock.
        num_looks: How often.

    Raises:
        NothingToCompareError: There is no `nvidia-smi`, or no GPU.
    """
    theirs: _Readings = {}
    ours: _Readings = {}
    source = NvmlSource()
    try:
        known = _find_fields(ask)
        for look in range(num_looks):
            if look:
                pause(_INTERVAL_S)
            _note(ours, _read_points(source.sample(now_ns())))
            _note(theirs, _read_lines(_query(ask, list(known.values())), list(known)))
    except ValueError as error:
        raise NothingToCompareError(f"nvidia-smi failed: {error}") from error
    finally:
        source.close()
    uuids = list(dict.fromkeys(uuid for uuid, _ in (*theirs, *ours)))
    if not uuids:
        raise NothingToCompareError("neither nvidia-smi nor NVML knows a GPU")
    return [_compare(uuid, value, theirs, ours) for uuid in uuids for value in _VALUES]


def describe(compared: Sequence[Compared]) -> Iterator[str]:
    """Yield the lines of a table."""
    gpu = ""
    for each in compared:
        if each.gpu_uuid != gpu:
            gpu = each.gpu_uuid
            yield f"{gpu:<44} {'nvidia-smi':>12} {'longpole':>12}"
        mark = "" if each.is_alike else "   differs"
        name = f"{each.name}, {each.unit}" if each.unit else each.name
        yield f"  {name:<42} {_show(each.nvidia_smi):>12} {_show(each.longpole):>12}{mark}"


def _find_fields(ask: Callable[[Sequence[str]], str]) -> Mapping[str, str]:
    """Return the name of each value that this `nvidia-smi` knows, by column."""
    found: dict[str, str] = {}
    for value in _VALUES:
        name = next((name for name in value.fields if _is_known(ask, name)), None)
        if name is not None:
            found[value.column] = name
    if not found:
        raise NothingToCompareError("nvidia-smi answers nothing: is the driver loaded?")
    return found


def _is_known(ask: Callable[[Sequence[str]], str], name: str) -> bool:
    try:
        _query(ask, [name])
    except OSError as error:
        raise NothingToCompareError(f"no nvidia-smi here ({error.strerror})") from error
    except ValueError:
        return False
    return True


def _query(ask: Callable[[Sequence[str]], str], names: Sequence[str]) -> str:
    fields = ",".join(("uuid", *names))
    return ask([f"--query-gpu={fields}", "--format=csv,noheader,nounits"])


def _read_lines(text: str, columns: Sequence[str]) -> Iterator[tuple[str, str, float]]:
    scales = {value.column: value.scale for value in _VALUES}
    for line in text.splitlines():
        uuid, *cells = [cell.strip() for cell in line.split(",")]
        for column, cell in zip(columns, cells, strict=False):
            number = _read_number(cell)
            if number is not None:
                yield uuid, column, number * scales[column]


def _read_number(cell: str) -> float | None:
    """Return a number, None for `[N/A]`, `[Not Supported]` and the like."""
    try:
        return float(cell)
    except ValueError:
        return None


def _read_points(points: Sequence[Point]) -> Iterator[tuple[str, str, float]]:
    for point in points:
        attributes = dict(point.attributes)
        column = GPU_COLUMN_OF_METRIC.get(point.metric)
        # `nvidia-smi` lists whole GPUs here.
        if column is not None and point.value is not None and HW_PARENT not in attributes:
            yield str(attributes.get(HW_ID, "")), column, float(point.value)


def _note(readings: _Readings, found: Iterator[tuple[str, str, float]]) -> None:
    for uuid, column, value in found:
        readings.setdefault((uuid, column), []).append(value)


def _compare(uuid: str, value: _Value, theirs: _Readings, ours: _Readings) -> Compared:
    medians = [
        statistics.median(readings[uuid, value.column]) * value.shown
        if (uuid, value.column) in readings
        else None
        for readings in (theirs, ours)
    ]
    their, our = medians
    is_alike = their is None or our is None
    if their is not None and our is not None:
        is_alike = abs(their - our) <= value.slack + value.slack_ratio * abs(their)
    return Compared(uuid, value.column, value.unit, their, our, is_alike)


def _show(value: float | None) -> str:
    return "not told" if value is None else f"{value:,.1f}"
