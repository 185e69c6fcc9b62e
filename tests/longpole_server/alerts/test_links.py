"""Where alerts lead: the run, its steps or minutes, and the panel; or a node's page."""

from urllib.parse import parse_qs, urlsplit

from longpole_server.alerts.events import make_link
from support.alert_events import make_event
from support.alert_histories import at


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
    assert make_link(event) == "/cluster?node=node%200"


def test_of_the_server_to_the_alerts() -> None:
    assert make_link(make_event(rule="disk.filling", run_id="")) == "/alerts#alert-alert-1"


def test_of_an_engine_to_its_minutes() -> None:
    path, query, panel = read(make_link(make_event(rule="kv.leak", entity_kind="replica")))
    assert (path, panel) == ("/run", "run-engines")
    assert {"time", "from", "to"} <= set(query)
