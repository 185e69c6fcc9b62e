"""Who asks, and what they may."""

from dataclasses import dataclass
from typing import Literal

Role = Literal["ingest", "viewer", "admin"]
"""`ingest` sends telemetry, `viewer` reads, `admin` does both and changes things."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A person or a program that proved who it is.

    Attributes:
        name: For people: a user's name, `token NAME`, or what stands for everybody.
        projects: The only ones it may send to, read and change; None: all.
        stamp: Changes when its secret does, so that sessions of the old one end.
        subject: Under which it is found again: `user/NAME`, `token/ID`, `own`.
    """

    name: str
    role: Role
    projects: frozenset[str] | None = None
    stamp: str = ""
    subject: str = ""

    @property
    def may_read(self) -> bool:
        """Whether it may look at runs."""
        return self.role != "ingest"

    @property
    def may_send(self) -> bool:
        """Whether it may send telemetry."""
        return self.role != "viewer"

    @property
    def may_change(self) -> bool:
        """Whether it may change rules, silences and alerts."""
        return self.role == "admin"

    def sees(self, project: str | None) -> bool:
        """Tell whether it may see what belongs to a project; None belongs to none."""
        return self.projects is None or project in self.projects


EVERYBODY = Principal("everybody", "admin")
"""Who asks where nobody is asked for credentials, and the server's own threads."""
