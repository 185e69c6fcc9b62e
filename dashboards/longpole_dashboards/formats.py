"""Numbers and times as people read them. What was not reported is an en dash, never a zero."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

ABSENT = "–"
NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
_QUARTER_NS = 900 * NS_PER_S

_SECOND_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNT_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def format_duration(seconds: float | None) -> str:
    """Return seconds in the two largest units that matter: `850 ms`, `42.3 s`, `3 min 12 s`."""
    if seconds is None or math.isnan(seconds):
        return ABSENT
    if seconds < 0:
        return f"−{format_duration(-seconds)}"
    if 0 < seconds < 0.00005:
        return "< 0.1 ms"
    if 0 < seconds < 0.00995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, part_size, part_unit in _SECOND_UNITS:
        if whole >= size:
            rest = (whole % size) // part_size
            return (
                f"{whole // size} {unit} {rest} {part_unit}" if rest else f"{whole // size} {unit}"
            )
    return f"{whole} s"


def format_count(value: float | None) -> str:
    """Return a count with three digits that matter: `412`, `8.19 k`, `1.31 M`."""
    if value is None or math.isnan(value):
        return ABSENT
    for size, unit in _COUNT_UNITS:
        if abs(value) >= size:
            scaled = value / size
            digits = max(0, 2 - int(math.log10(abs(scaled))))
            return f"{scaled:.{digits}f} {unit}"
    return f"{value:.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:.3g}"


def format_whole(value: float | None) -> str:
    """Return a whole number with thin spaces between thousands: `12 480`."""
    return ABSENT if value is None or math.isnan(value) else f"{value:,.0f}".replace(",", "\u202f")


def format_ratio(ratio: float | None, digits: int = 0) -> str:
    """Return a fraction in 0..1 as a percentage."""
    return ABSENT if ratio is None or math.isnan(ratio) else f"{ratio * 100:.{digits}f} %"


def format_bytes(size: float | None) -> str:
    """Return bytes in binary units."""
    if size is None or math.isnan(size):
        return ABSENT
    for unit in _BYTE_UNITS[:-1]:
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_BYTE_UNITS[-1]}"


def format_energy(joules: float | None) -> str:
    """Return joules as people pay for them: `0.42 J`, `8.1 Wh`, `1.31 kWh`."""
    if joules is None or math.isnan(joules):
        return ABSENT
    hours = joules / 3600
    for size, unit in ((1e6, "MWh"), (1e3, "kWh"), (1.0, "Wh")):
        if abs(hours) >= size:
            return f"{format_count(hours / size)} {unit}"
    return f"{joules / 1e3:.1f} kJ" if abs(joules) >= 1e3 else f"{joules:.3g} J"


def format_value(value: float | None, unit: str) -> str:
    """Return a value with its unit as the conventions name it (`1`, `s`, `tokens`, ...)."""
    if value is None or math.isnan(value):
        return ABSENT
    if unit == "s":
        return format_duration(value)
    if unit == "bytes":
        return format_bytes(value)
    if unit == "ratio":
        return format_ratio(value, 1)
    if unit in ("1", ""):
        return f"{value:.3g}"
    return f"{format_count(value)} {unit}"


def format_change(ratio: float | None) -> str:
    """Return a relative change with its sign: `+3.1 %`, `−12 %`."""
    if ratio is None or math.isnan(ratio):
        return ABSENT
    percent = ratio * 100
    if abs(percent) < 0.05:
        return "±0 %"
    digits = 0 if abs(percent) >= 10 else 1
    return f"{'+' if percent > 0 else '−'}{abs(percent):.{digits}f} %"


@dataclass(frozen=True, slots=True)
class Zone:
    """The viewer's time zone. Without a browser's word it is UTC."""

    tz: tzinfo = timezone.utc
    label: str = "UTC"

    @classmethod
    def from_browser(cls, reported: Mapping[str, object] | None) -> "Zone":
        """Read `{"name": IANA name, "offset_min": minutes east of UTC}` as browsers report it."""
        if not reported:
            return cls()
        name = reported.get("name")
        if isinstance(name, str) and name:
            try:
                return cls(ZoneInfo(name), name)
            except (ZoneInfoNotFoundError, ValueError, OSError):
                pass
        offset = reported.get("offset_min")
        if isinstance(offset, int | float) and abs(offset) < 24 * 60:
            return cls(timezone(timedelta(minutes=offset)), f"UTC{offset / 60:+g}")
        return cls()

    def local(self, ts_ns: int) -> datetime:
        """Return a UTC timestamp as the viewer's wall clock, without a zone attached."""
        seconds, rest_ns = divmod(ts_ns, NS_PER_S)
        moment = datetime.fromtimestamp(seconds, tz=self.tz).replace(tzinfo=None)
        return moment.replace(microsecond=rest_ns // 1000)

    def local_ms(self, ts_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return UTC timestamps as milliseconds of the viewer's wall clock."""
        quarters, which = np.unique(ts_ns // _QUARTER_NS, return_inverse=True)
        # Offsets of zones change at quarters of an hour only.
        offsets_ms = [
            (datetime.fromtimestamp(quarter * 900, tz=self.tz).utcoffset() or timedelta())
            / timedelta(milliseconds=1)
            for quarter in quarters.tolist()
        ]
        return ts_ns / NS_PER_MS + np.reshape(np.array(offsets_ms)[which], ts_ns.shape)

    def local_moments(self, ts_ns: NDArray[np.int64]) -> NDArray[np.datetime64]:
        """Return UTC timestamps as the viewer's wall clock, as `local` does, many at once."""
        return np.rint(self.local_ms(ts_ns)).astype("datetime64[ms]")

    def format_clock(self, ts_ns: int | None) -> str:
        """Return `14:03:22`."""
        return ABSENT if ts_ns is None else self.local(ts_ns).strftime("%H:%M:%S")

    def format_moment(self, ts_ns: int | None) -> str:
        """Return `12 Mar, 14:03:22`."""
        if ts_ns is None:
            return ABSENT
        moment = self.local(ts_ns)
        return f"{moment.day} {moment.strftime('%b, %H:%M:%S')}"
