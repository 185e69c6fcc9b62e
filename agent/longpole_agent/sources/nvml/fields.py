"""Field values: many values of a device in one call, each with an answer of its own.

Rates come from counters that only grow, read twice: the call that NVML has for PCIe blocks for
20 ms a direction.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml

from longpole_agent.sources.nvml.answers import NOT_SUPPORTED, Handle, check_present, code_of

# All links of a device together.
_ALL_LINKS = 0xFFFF_FFFF
_KIB = 1024.0
_MEMBER_OF_TYPE = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field.

    Attributes:
        number: NVML's (`NVML_FI_DEV_...`).
        column: Of a GPU sample. Several fields of one column add up, unless they are ways to it.
        factor: From NVML's unit to the column's.
        is_counter: Whether the column is the rate at which the field grows.
        scope: Which part of the device.
        way: Of several ways to a column, the first that is supported counts.
    """

    number: int
    column: str
    factor: float = 1.0
    is_counter: bool = False
    scope: int = 0
    way: int = 0


# Power is this moment's, not the last second's mean. NVLink's counters hold payload; what the
# second way counts is known from the fifth generation on.
FAST: Sequence[Field] = (
    Field(pynvml.NVML_FI_DEV_POWER_INSTANT, "power_watts", 1e-3),
    Field(pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, "energy_joules", 1e-3),
)
RATES: Sequence[Field] = (
    Field(
        pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        "nvlink_rx_bytes_per_s", _KIB, is_counter=True, scope=_ALL_LINKS,
    ),
    Field(
        pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
        "nvlink_tx_bytes_per_s", _KIB, is_counter=True, scope=_ALL_LINKS,
    ),
    Field(
        pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES,
        "nvlink_rx_bytes_per_s", is_counter=True, scope=_ALL_LINKS, way=1,
    ),
    Field(
        pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES,
        "nvlink_tx_bytes_per_s", is_counter=True, scope=_ALL_LINKS, way=1,
    ),
    Field(pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, "pcie_rx_bytes_per_s", is_counter=True),
    Field(pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, "pcie_tx_bytes_per_s", is_counter=True),
)  # fmt: skip
SLOW: Sequence[Field] = (
    Field(pynvml.NVML_FI_DEV_MEMORY_TEMP, "memory_temperature_celsius"),
    Field(pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, "ecc_uncorrected_errors"),
    Field(pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL, "ecc_corrected_errors"),
    Field(pynvml.NVML_FI_DEV_REMAPPED_COR, "remapped_rows"),
    Field(pynvml.NVML_FI_DEV_REMAPPED_UNC, "remapped_rows"),
    Field(pynvml.NVML_FI_DEV_REMAPPED_PENDING, "row_remap_pending"),
    Field(pynvml.NVML_FI_DEV_REMAPPED_FAILURE, "row_remap_failed"),
)


class FieldBatch:
    """The fields of one device that are asked for in one call.

    Fields that are not supported are asked for once. Of a column's ways the first that answered is
    kept.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = list(fields)
        self._before: dict[Field, tuple[int, float]] = {}

    @property
    def columns(self) -> Collection[str]:
        """The columns that some field tells, as far as is known."""
        return {field.column for field in self._fields}

    def read(self, handle: Handle, ts_ns: int, without: Collection[str] = ()) -> dict[str, float]:
        """Return the columns that the device answered.

        Args:
            handle: The device.
            ts_ns: Now, for fields that do not say when they were read.
            without: Columns that others tell: not asked for.

        Raises:
            GoneError: The device does not answer any more.
        """
        asked = [field for field in self._fields if field.column not in without]
        if not asked:
            return {}
        try:
            answers: Any = pynvml.nvmlDeviceGetFieldValues(
                handle, [(field.number, field.scope) for field in asked]
            )
        except pynvml.NVMLError as error:
            check_present(code_of(error))
            if code_of(error) in NOT_SUPPORTED:
                self._fields = []
            return {}
        return self._take(asked, answers, ts_ns)

    def _take(self, asked: Sequence[Field], answers: Any, ts_ns: int) -> dict[str, float]:  # noqa: ANN401 - pynvml has no types
        found: dict[str, float] = {}
        incomplete: set[str] = set()
        way_of: dict[str, int] = {}
        for field, answer in zip(asked, answers, strict=True):
            code = int(answer.nvmlReturn)
            check_present(code)
            if code in NOT_SUPPORTED:
                self._fields.remove(field)
                continue
            if code != pynvml.NVML_SUCCESS:
                incomplete.add(field.column)
                continue
            if way_of.setdefault(field.column, field.way) != field.way:
                self._fields.remove(field)
                continue
            value = self._read_value(field, answer, ts_ns)
            if value is None:
                incomplete.add(field.column)
            else:
                found[field.column] = found.get(field.column, 0.0) + value
        # A part of a sum is no sum.
        return {name: value for name, value in found.items() if name not in incomplete}

    def _read_value(self, field: Field, answer: Any, ts_ns: int) -> float | None:  # noqa: ANN401 - pynvml has no types
        member = _MEMBER_OF_TYPE.get(int(answer.valueType))
        if member is None:
            return None
        value = float(getattr(answer.value, member)) * field.factor
        if not field.is_counter:
            return value
        # The driver says when it read the counter, in microseconds.
        at_ns = int(answer.timestamp) * 1000 or ts_ns
        before = self._before.get(field)
        if before is not None and at_ns == before[0]:
            return None  # the driver answered from its memory
        self._before[field] = (at_ns, value)
        if before is None or at_ns < before[0] or value < before[1]:
            return None
        return (value - before[1]) / ((at_ns - before[0]) / 1e9)
