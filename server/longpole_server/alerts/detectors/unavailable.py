"""What this version cannot judge: it says so and never passes in silence."""

from dataclasses import dataclass

from longpole_server.alerts.history import History
from longpole_server.alerts.rule import Judgement, not_judgeable


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Judges nothing, and says why."""

    why: str
    reads: tuple[str, ...]
    fire: float | None = None
    clear: float | None = None
    unit: str = "1"

    def judge(self, history: History) -> Judgement:  # noqa: ARG002 - the protocol's signature
        """Return that nothing can be judged."""
        return not_judgeable(self.why)
