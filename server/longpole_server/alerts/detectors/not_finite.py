"""A loss or a gradient that is no number any more."""

import math
from dataclasses import dataclass

from longpole_server.alerts.history import History
from longpole_server.alerts.rule import Judgement, not_judgeable
from longpole_server.model.alert import AlertEvidence


@dataclass(frozen=True, slots=True)
class NotFinite:
    """Fires when a logged scalar whose name holds one of `parts` is NaN or infinite."""

    parts: tuple[str, ...]
    fire: float | None = None
    clear: float | None = None
    unit: str = "1"

    @property
    def reads(self) -> tuple[str, ...]:
        """Parts of the names."""
        return tuple(f"*{part}*" for part in self.parts)

    def judge(self, history: History) -> Judgement:
        """Judge the newest step; the value is how many scalars are not finite."""
        if history.newest is None:
            return not_judgeable("no step has closed")
        scalars = history.newest.scalars
        watched = {
            name: value
            for name, value in scalars.items()
            if any(part in name.lower() for part in self.parts)
        }
        if not watched:
            return not_judgeable("no loss and no gradient norm is reported")
        broken = {name: value for name, value in watched.items() if not math.isfinite(value)}
        words = {"names": ", ".join(sorted(broken)[:3]), "what": _name(len(broken))}
        evidence = tuple(AlertEvidence(name, value, "1") for name, value in sorted(broken.items()))
        quiet = None if broken else f"all {len(watched)} watched scalars are finite"
        return Judgement(
            bool(broken), not broken, float(len(broken)), 0.0, "1", None, evidence, words, quiet
        )


def _name(count: int) -> str:
    if count == 1:
        return "A logged loss or gradient norm is not finite"
    return f"{count} logged losses or gradient norms are not finite"
