"""The built-in rules: a closed list of ids, each with one rule."""

from longpole_server.alerts.catalogue.hardware import HARDWARE_RULES
from longpole_server.alerts.catalogue.learning import LEARNING_RULES
from longpole_server.alerts.catalogue.liveness import LIVENESS_RULES
from longpole_server.alerts.catalogue.pace import PACE_RULES
from longpole_server.alerts.catalogue.rollout import ROLLOUT_RULES
from longpole_server.alerts.catalogue.staleness import STALENESS_RULES
from longpole_server.alerts.rule import Rule

BUILT_IN_RULES: tuple[Rule, ...] = (
    *LIVENESS_RULES,
    *ROLLOUT_RULES,
    *STALENESS_RULES,
    *LEARNING_RULES,
    *PACE_RULES,
    *HARDWARE_RULES,
)

__all__ = ["BUILT_IN_RULES"]
