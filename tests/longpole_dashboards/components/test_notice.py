from longpole_dashboards.components.notice import error_notice, missing_notice
from support.dashboard_components import words


def test_errors_say_what_to_do() -> None:
    shown = words(error_notice("The store is busy.", "Wait a moment."))
    assert shown.split() == ["The", "store", "is", "busy.", "Wait", "a", "moment."]


def test_a_missing_subject_leads_back_to_the_runs() -> None:
    assert "All runs" in words(missing_notice("There is no run x."))


def test_what_is_missing_is_said_in_a_sentence_without_routes_for_programs() -> None:
    said = words(missing_notice("no run 'x'", "GET /api/v1/runs lists all runs"))
    assert said.startswith("No run 'x'")
    assert "/api/" not in said
    assert "Choose one" in words(missing_notice("The address names no step.", "Choose one."))


def test_what_is_missing_in_a_run_leads_to_that_run() -> None:
    notice = missing_notice("No step.", run_id="a/b")
    assert "Run a/b" in words(notice)
    assert "/run?id=a%2Fb" in str(notice)
