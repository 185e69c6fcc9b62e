"""Where alerts lead: the run, its steps or minutes, and the panel; or a node's page."""

from urllib.parse import parse_qs, urlsplit

import pytest

from longpole_server.alerts.events import Subject, make_link
from longpole_server.alerts.history import Moment
from longpole_server.alerts.lifecycle import advance
from longpole_server.alerts.user_rules import make_rule as make_user_rule
from longpole_server.alerts.user_rules import read_user_rule
from support.alert_events import make_event
from support.alert_histories import RUN, at, judgement_of, make_run


def read(link: str) -> tuple[str, dict[str, list[str]], str]:
    parts = urlsplit(link)
    return parts.path, parse_qs(parts.query), parts.fragment


def test_of_a_step_to_the_steps_before_it() -> None:
    path, query, panel = read(make_link(make_event(started_step=30, step=34)))
    assert (path, panel) == ("/run", "run-health")
    assert (query["from"], query["to"]) == (["10"], ["34"])
    assert "time" not in query


def test_of_a_gpu_to_the_minutes_before_it() -> None:
    event = make_event(
        rule="gpu.lost", started_ns=at(3_600), ts_ns=at(3_700), started_step=None, step=None
    )
    path, query, panel = read(make_link(event))
    assert (path, panel) == ("/run", "run-gpus")
    first, last = map(int, query["time"][0].split("-"))
    assert first * 1_000_000 == at(3_600 - 900)
    assert last * 1_000_000 == at(3_760)


def test_of_an_agent_to_its_node() -> None:
    event = make_event(rule="spool.filling", entity_kind="host", entity_id="node 0")
    assert make_link(event) == "/cluster?node=node%200#cluster-nodes-table"


def test_of_the_server_to_the_alerts() -> None:
    link = make_link(make_event(rule="disk.filling", run_id=""))
    assert link == "/alerts?alert=alert-1#alert-alert-1"


@pytest.mark.parametrize(
    ("figure", "panel"),
    [
        ("reward_mean", "run-health"),
        ("val/my own metric", "run-health"),
        ("tokens_total", "run-health"),
        ("step_duration_s", "run-throughput"),
        ("stage_s/gen", "run-shares"),
        ("share/update_actor", "run-shares"),
        ("mfu_step", "run-mfu"),
        ("engines/running", "run-engines"),
    ],
)
def test_of_a_users_rule_to_where_its_figure_is_drawn(figure: str, panel: str) -> None:
    rule = make_user_rule(
        read_user_rule({"metric": figure, "comparison": "above", "threshold": 1.0})
    )
    moment = Moment(at(10), at(11), 4)
    event = advance(rule, Subject(RUN, make_run()), None, judgement_of(2), moment)
    assert event is not None
    assert read(make_link(event))[2] == panel == rule.panel


def test_of_an_engine_to_its_minutes() -> None:
    path, query, panel = read(make_link(make_event(rule="kv.leak", entity_kind="replica")))
    assert (path, panel) == ("/run", "run-engines")
    assert {"time", "from", "to"} <= set(query)
