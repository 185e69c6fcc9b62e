from dataclasses import replace
from typing import Any

from longpole_dashboards.components.now import now_card
from longpole_dashboards.formats import Zone
from longpole_server.model.run import RunSummary
from support.dashboard_components import find_all, words
from support.dashboard_fake_service import HANGING_RUN, LIVE_RUN, FakeService

NOW_NS = 1_760_000_000 * 10**9


def summary(run_id: str = LIVE_RUN) -> RunSummary:
    return FakeService(NOW_NS).get_run(run_id).summary


def gauge(run: RunSummary) -> Any:
    (found,) = find_all(now_card(run, Zone()), "lp-gauge")
    return found


def test_the_open_stage_says_what_is_usual() -> None:
    shown = words(now_card(summary(), Zone()))
    assert "gen step 31" in " ".join(shown.split())
    assert "usually" in shown
    assert "heartbeat" in shown


def test_the_browser_gets_what_it_needs_to_tell_a_hang() -> None:
    run = summary(HANGING_RUN)
    assert run.open_stage is not None
    found = gauge(run)
    assert int(getattr(found, "data-since-ms")) == run.open_stage.since_ns // 10**6
    assert float(getattr(found, "data-longest-s")) < 10
    assert float(getattr(found, "data-hang-factor")) == 3


def test_the_first_step_has_nothing_to_compare_with() -> None:
    run = summary()
    assert run.open_stage is not None
    first = replace(run, open_stage=replace(run.open_stage, usual_s=None, usual_max_s=None))
    assert "no earlier step" in words(now_card(first, Zone()))
    assert getattr(gauge(first), "data-usual-s") == ""


def test_a_silent_trainer_is_not_taken_for_an_idle_one() -> None:
    shown = words(now_card(replace(summary(), open_stage=None), Zone()))
    assert "longpole.stage()" in shown


def test_a_finished_run_says_so() -> None:
    shown = words(now_card(replace(summary(), state="finished"), Zone()))
    assert "Finished" in shown
    assert "30 steps" in shown
