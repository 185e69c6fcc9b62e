"""Every view is an address: pages, and the choices a viewer made on them, as query values."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlencode

RUNS_PATH = "/"
RUN_PATH = "/run"
STEP_PATH = "/step"
SAMPLE_PATH = "/trajectory"
COMPARE_PATH = "/compare"
CLUSTER_PATH = "/cluster"
ALERTS_PATH = "/alerts"
# No page: a file to keep.
REPORT_PATH = "/report"

# Nanoseconds of times after the year 2262 are more than 64 bits: none after 2100 is asked for.
_SPAN_MS = re.compile(r"([0-9]{1,16})-([0-9]{1,16})")
_LATEST_MS = 4_102_444_800_000

# First and last step of one side of a comparison; None is open.
Window = tuple[int | None, int | None]
LAST_WINDOW: Window = (None, None)


def run_address(run_id: str) -> str:
    """Return the address of a run's page."""
    return _address(RUN_PATH, id=run_id)


def step_address(run_id: str, step: int) -> str:
    """Return the address of a step's page."""
    return _address(STEP_PATH, run=run_id, step=step)


def sample_address(run_id: str, trajectory_id: str) -> str:
    """Return the address of a sample's page."""
    return _address(SAMPLE_PATH, run=run_id, id=trajectory_id)


def compare_address(
    run_id: str, other_run_id: str, steps: Window = LAST_WINDOW, other_steps: Window = LAST_WINDOW
) -> str:
    """Return the address that compares a run's window with one of another run, or of itself."""
    return _address(
        COMPARE_PATH,
        **{"a": run_id, "b": other_run_id, "from": steps[0], "to": steps[1]},
        b_from=other_steps[0],
        b_to=other_steps[1],
    )


def cluster_address(host: str | None = None) -> str:
    """Return the address of the cluster's page, or of one node on it."""
    return _address(CLUSTER_PATH, node=host)


def gpu_address(host: str, gpu_uuid: str) -> str:
    """Return the address of one GPU over time, on its node's part of the cluster's page."""
    return _address(CLUSTER_PATH, node=host, gpu=gpu_uuid)


def report_address(run_id: str, zone: str) -> str:
    """Return the address of a run's report, its times in an IANA zone."""
    return _address(REPORT_PATH, run=run_id, zone=zone)


def trace_address(run_id: str, step: int) -> str:
    """Return the address of a step as a trace for Perfetto."""
    return _address("/api/v1/export/chrome-trace", run=run_id, step=step)


def alerts_address(run_id: str | None = None, state: str | None = None) -> str:
    """Return the address of alerts, of one run or state if asked for."""
    return _address(ALERTS_PATH, run=run_id, state=state)


def _address(path: str, **query: object) -> str:
    known = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(known, quote_via=quote, safe='')}" if known else path


@dataclass(frozen=True, slots=True)
class Query:
    """The query part of an address, read leniently: what makes no sense counts as absent."""

    values: Mapping[str, str]

    @classmethod
    def parse(cls, search: str | None) -> "Query":
        """Read `?a=b&c=d`; of a repeated name the last counts."""
        pairs = parse_qs((search or "").removeprefix("?"), keep_blank_values=False)
        return cls({name: found[-1] for name, found in pairs.items()})

    def text(self, name: str) -> str | None:
        """Return a value, or None when it is absent."""
        return self.values.get(name)

    def number(self, name: str) -> int | None:
        """Return a whole number, or None when it is absent or no number."""
        try:
            return int(self.values[name])
        except (KeyError, ValueError):
            return None

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """Return one of `allowed`, the first of them when nothing else was asked for."""
        value = self.values.get(name)
        return value if value in allowed else allowed[0]

    def span(self, name: str) -> tuple[float, float] | None:
        """Return a range written as `<first>-<last>`, fractions allowed, last after first."""
        start, _, end = self.values.get(name, "").partition("-")
        try:
            first, last = float(start), float(end)
        except ValueError:
            return None
        return (first, last) if math.isfinite(last - first) and last > first else None

    def span_ms(self, name: str) -> tuple[int, int] | None:
        """Return a time range written as `<start>-<end>` in epoch milliseconds, end after start."""
        found = _SPAN_MS.fullmatch(self.values.get(name, ""))
        if found is None:
            return None
        start_ms, end_ms = map(int, found.groups())
        return (start_ms, end_ms) if start_ms < end_ms <= _LATEST_MS else None
