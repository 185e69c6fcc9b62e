"""The words of the decision table and the rules that decide must name the same verdicts."""

from longpole_dashboards.verdicts import VERDICTS
from longpole_server.diagnosis.rules import RULES


def test_every_rule_has_words() -> None:
    missing = {rule.code for rule in RULES} - set(VERDICTS)
    assert not missing
