"""What servers that share a key believe each other: for whom one of them asks.

A server that only shows passes on what changes something. Where a person really asks from, and
whom a trusted proxy named, it says in a header that it signs; nobody else can.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from itsdangerous import BadData, URLSafeSerializer

HEADER = "x-longpole-voucher"
_SALT = "longpole.voucher/1"
# Clocks of two machines differ, and what was overheard is worth nothing for long.
_VALID_S = 120.0


@dataclass(frozen=True, slots=True)
class Voucher:
    """For whom another server asks.

    Attributes:
        address: Of the person's machine; empty where the server asks for itself.
        is_encrypted: Whether they speak TLS with it.
        user: Whom a trusted proxy named there, None where none did.
    """

    address: str = ""
    is_encrypted: bool = False
    user: str | None = None


class Vouchers:
    """Makes vouchers and reads them.

    Args:
        key: Shared by the servers; the one that signs sessions.
        clock_s: Seconds since 1970.
    """

    def __init__(self, key: str, clock_s: Callable[[], float] = time.time) -> None:
        self._serializer = URLSafeSerializer(key, salt=_SALT)
        self._clock_s = clock_s

    def make(self, voucher: Voucher) -> str:
        """Return the value of the header."""
        return self._serializer.dumps(
            [self._clock_s(), voucher.address, voucher.is_encrypted, voucher.user]
        )

    def read(self, value: str | None) -> Voucher | None:
        """Return what a header says; None without one, and when it is forged or old."""
        if not value:
            return None
        try:
            match self._serializer.loads(value):
                case [float(made_s), str(address), bool(is_encrypted), (str() | None) as user]:
                    is_valid = abs(self._clock_s() - made_s) <= _VALID_S
                    return Voucher(address, is_encrypted, user) if is_valid else None
                case _:
                    return None
        except BadData:
            return None
