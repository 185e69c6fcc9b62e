"""What rules of time saw lately, for pictures: what steps and GPUs did is stored, this is not."""

from collections import deque
from collections.abc import Container

from longpole_server.alerts.history import GPU
from longpole_server.model.alert import AlertEvent, RuleInput

# Half an hour of looks.
PAST_NS = 1_800 * 10**9
_PAST_VALUES = 180
_MAX_PASTS = 2_000

# Rule, run, kind and id of the entity.
InputKey = tuple[str, str | None, str, str]


class PastValues:
    """Values by what they are of. Not thread-safe."""

    def __init__(self) -> None:
        self._values: dict[InputKey, deque[tuple[int, float]]] = {}

    def remember(self, key: InputKey, ts_ns: int, value: float | None) -> None:
        """Take a value in; of GPUs there are too many to be remembered here."""
        if value is None or key[2] == GPU:
            return
        if key not in self._values and len(self._values) >= _MAX_PASTS:
            del self._values[next(iter(self._values))]
        values = self._values.setdefault(key, deque(maxlen=_PAST_VALUES))
        values.append((ts_ns, value))

    def list_past(self, event: AlertEvent) -> list[tuple[int, float]]:
        """Return what the rule of an alert saw, by time."""
        return list(self._values.get(key_of_event(event), ()))

    def forget_run(self, run_id: str | None, keep: Container[str]) -> None:
        """Forget what rules saw of a run, but those to keep."""
        for key in [key for key in self._values if key[1] == run_id and key[0] not in keep]:
            del self._values[key]


def key_of_event(event: AlertEvent) -> InputKey:
    """Return what an event is of."""
    return (event.rule, event.run_id or None, event.entity_kind, event.entity_id)


def key_of_input(rule_id: str, seen: RuleInput) -> InputKey:
    """Return what a rule saw something of."""
    return (rule_id, seen.run_id, seen.entity.kind, seen.entity.id)
