"""Every view is an address: pages, and the choices a viewer made on them, as query values."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlencode

RUNS_PATH = "/"
RUN_PATH = "/run"
STEP_PATH = "/step"


def run_address(run_id: str) -> str:
    """Return the address of a run's page."""
    return f"{RUN_PATH}?{urlencode({'id': run_id}, quote_via=quote, safe='')}"


def step_address(run_id: str, step: int) -> str:
    """Return the address of a step's page."""
    query = urlencode({"run": run_id, "step": step}, quote_via=quote, safe="")
    return f"{STEP_PATH}?{query}"


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

    def span_ms(self, name: str) -> tuple[int, int] | None:
        """Return a time range written as `<start>-<end>` in epoch milliseconds, end after start."""
        start, _, end = self.values.get(name, "").partition("-")
        if not (start.isdigit() and end.isdigit()) or int(end) <= int(start):
            return None
        return int(start), int(end)
