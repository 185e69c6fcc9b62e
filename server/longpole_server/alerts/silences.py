"""Which alerts a silence keeps from people."""

from collections.abc import Iterable

from longpole_server.alerts.events import Fingerprint
from longpole_server.model.alert import Silence


def find_silence(silences: Iterable[Silence], alert: Fingerprint, now_ns: int) -> str:
    """Return the id of a silence that is in force for an alert, else an empty string."""
    return next(
        (
            silence.silence_id
            for silence in silences
            if silence.created_ns <= now_ns < silence.ends_ns and _matches(silence, alert)
        ),
        "",
    )


def _matches(silence: Silence, alert: Fingerprint) -> bool:
    of_rule = silence.rule is None or alert.rule == silence.rule
    of_rule = of_rule or alert.rule.startswith(f"{silence.rule}.")
    of_run = silence.run_id is None or alert.run_id == silence.run_id
    of_entity = silence.entity is None or alert.entity_id == silence.entity
    return of_rule and of_run and of_entity
