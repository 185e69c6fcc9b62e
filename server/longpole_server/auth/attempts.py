"""How often somebody may try a password: who fails often waits ever longer, and alone.

Three counts, each of failures since the last pause. One of the address, which a stranger shares
with nobody elsewhere; one of the address and the name, which is stricter; and one of the name from
all addresses together, against guessing from many. A browser that signed in under a name before
has a mark that says so: it is counted by that mark alone, so that no stranger keeps its owner out.
"""

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_MAX_KEYS = 10_000
# What an operator of IPv6 gives one customer, at least.
_IPV6_PREFIX = 64
_NEWS_S = 300.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How failures of one kind are answered.

    Attributes:
        num_free: So many cost nothing.
        first_s: The wait after the next one; each further one doubles it.
        longest_s: The longest wait.
    """

    num_free: int
    first_s: float
    longest_s: float

    def wait_s(self, num_failures: int) -> float:
        """Return how long after the last of so many failures nothing is tried."""
        beyond = num_failures - self.num_free
        if beyond <= 0:
            return 0.0
        return min(self.longest_s, self.first_s * 2.0 ** min(beyond - 1, 32))


_OF_PAIR = Patience(num_free=5, first_s=5.0, longest_s=900.0)
_OF_ADDRESS = Patience(num_free=20, first_s=5.0, longest_s=900.0)
# Whoever comes from a new place under this name waits with the strangers, so it stays short: one
# try in a minute is no guessing.
_OF_NAME = Patience(num_free=50, first_s=1.0, longest_s=60.0)
_OF_BROWSER = Patience(num_free=10, first_s=5.0, longest_s=900.0)


@dataclass(frozen=True, slots=True)
class Source:
    """Where an attempt comes from, and under which name.

    Attributes:
        address: Of the client; empty when not known.
        name: Empty for a token alone.
        mark: Of a browser that signed in under this name before; None without one.
    """

    address: str
    name: str
    mark: str | None = None

    def list_counts(self) -> tuple[tuple[str, Patience], ...]:
        """Return by what it is counted."""
        if self.mark is not None:
            return ((f"browser/{self.mark}", _OF_BROWSER),)
        place = _group(self.address)
        of_address = (f"address/{place}", _OF_ADDRESS)
        if not self.name:
            return (of_address,)
        return (
            of_address,
            (f"pair/{place}/{self.name}", _OF_PAIR),
            (f"name/{self.name}", _OF_NAME),
        )


@dataclass(slots=True)
class _Count:
    num_failures: int
    last_s: float


class Attempts:
    """Counts attempts to sign in. Thread-safe.

    Bounded: of more than 10,000 counts the one whose attempt is oldest is forgotten.

    Args:
        pause_s: Who did not fail for so long starts anew.
    """

    def __init__(
        self, pause_s: float = 3600.0, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._pause_s = pause_s
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._counts: OrderedDict[str, _Count] = OrderedDict()
        # When one that has to wait was last told of.
        self._told: OrderedDict[str, float] = OrderedDict()

    def begin(self, source: Source) -> float:
        """Count an attempt as failed until it has succeeded, or return how long to wait.

        Counted before it is known: of a thousand at once only the free ones are tried.

        Returns:
            0 where it may be tried; else the seconds to wait, and nothing is counted.
        """
        now_s = self._clock_s()
        with self._lock:
            counts = source.list_counts()
            wait_s = max(self._wait_of(key, patience, now_s) for key, patience in counts)
            if wait_s > 0:
                return wait_s
            for key, _ in counts:
                count = self._counts.setdefault(key, _Count(0, now_s))
                if now_s - count.last_s >= self._pause_s:
                    count.num_failures = 0
                count.num_failures += 1
                count.last_s = now_s
                self._counts.move_to_end(key)
            while len(self._counts) > _MAX_KEYS:
                self._counts.popitem(last=False)
            return 0.0

    def succeed(self, source: Source) -> None:
        """Forget the failures of somebody who proved who they are.

        Those of others under the same name stay, and so do those of the same address under other
        names: who has one password could guess the others for ever.
        """
        with self._lock:
            for key, _ in source.list_counts():
                if key.startswith(("pair/", "browser/")):
                    self._counts.pop(key, None)
                elif (count := self._counts.get(key)) is not None:
                    count.num_failures -= 1

    def is_news(self, source: Source) -> bool:
        """Tell whether it is worth a word that somebody has to wait: once in five minutes.

        Who is refused may go on asking as fast as the network carries it, and must not fill with
        it what others are written down in.
        """
        now_s = self._clock_s()
        with self._lock:
            waiting = [
                key
                for key, patience in source.list_counts()
                if self._wait_of(key, patience, now_s) > 0
            ]
            news = [key for key in waiting if now_s - self._told.get(key, -_NEWS_S) >= _NEWS_S]
            for key in news:
                self._told[key] = now_s
                self._told.move_to_end(key)
            while len(self._told) > _MAX_KEYS:
                self._told.popitem(last=False)
            return bool(news)

    def _wait_of(self, key: str, patience: Patience, now_s: float) -> float:
        count = self._counts.get(key)
        if count is None or now_s - count.last_s >= self._pause_s:
            return 0.0
        return max(0.0, count.last_s + patience.wait_s(count.num_failures) - now_s)


def _group(address: str) -> str:
    """Return what stands for all addresses that one client can choose from."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), _IPV6_PREFIX), strict=False))
