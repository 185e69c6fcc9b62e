"""The words of the decision table and the rules that decide must name the same verdicts."""

from longpole_dashboards.verdicts import VERDICTS
from longpole_server.diagnosis.rules import RULES

# The verdict where no rule holds.
NO_RULE = {"balanced"}


def test_the_table_shows_exactly_the_verdicts_that_can_be_given() -> None:
    assert set(VERDICTS) == {rule.code for rule in RULES} | NO_RULE
