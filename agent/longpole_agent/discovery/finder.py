"""Which of the pages there may be are an engine's: each is looked at before it is scraped."""

import re
from collections.abc import Callable, Sequence

from longpole_agent.sources.pages import FetchPage, PageError
from longpole_agent.targets import Target

_EVERY_NS = 15_000_000_000
# A page that is none is looked at again now and then: engines answer late, when they have loaded.
_RETRY_NS = 60_000_000_000
_MAX_LOOKS = 16
_MAX_FOUND = 64
_SERIES = re.compile(r"^(?:vllm|sglang):", re.MULTILINE)

ListCandidates = Callable[[], Sequence[Target]]


class EngineFinder:
    """Keeps the found pages. One thread calls it.

    Args:
        sources: Say where pages may be.
        fetch: Fetches a page.
        now_ns: Monotonic nanoseconds.
    """

    def __init__(
        self, sources: Sequence[ListCandidates], fetch: FetchPage, now_ns: Callable[[], int]
    ) -> None:
        self._sources = sources
        self._fetch = fetch
        self._now_ns = now_ns
        self._asked_ns: int | None = None
        self._found: tuple[Target, ...] = ()
        # Candidates that were no engine's, with when to look again.
        self._others: dict[str, int] = {}

    def __call__(self) -> Sequence[Target]:
        """Return the engines' pages, looking anew every fifteen seconds."""
        now_ns = self._now_ns()
        if self._asked_ns is not None and now_ns - self._asked_ns < _EVERY_NS:
            return self._found
        self._asked_ns = now_ns
        candidates = {
            target.address: target
            for list_candidates in self._sources
            for target in list_candidates()
        }
        known = {target.address for target in self._found}
        self._others = {
            address: due_ns for address, due_ns in self._others.items() if address in candidates
        }
        kept = [target for target in candidates.values() if target.address in known]
        looks = 0
        for target in candidates.values():
            if target.address in known or self._others.get(target.address, now_ns) > now_ns:
                continue
            if looks >= _MAX_LOOKS or len(kept) >= _MAX_FOUND:
                break
            looks += 1
            if self._is_engine(target.address):
                kept.append(target)
                self._others.pop(target.address, None)
            else:
                self._others[target.address] = now_ns + _RETRY_NS
        self._found = tuple(kept)
        return self._found

    def _is_engine(self, address: str) -> bool:
        try:
            return _SERIES.search(self._fetch(address)) is not None
        except PageError:
            return False
