"""Routes of alerts, rules, silences and channels."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from support.server_runs import RunScript
from support.server_service import ServiceBench

RUN_ID = "team/broken"


def keys(text: str) -> set[str]:
    return set(text.split())


ALERT_KEYS = keys(
    "alert_id rule severity state run_id entity started_ns last_seen_ns resolved_ns count value "
    "threshold unit summary cause link"
)
RULE_KEYS = keys("rule_id title severity condition quiet_because inputs built_in")
GOOD_RULE: dict[str, Any] = {"metric": "critic/score/mean", "comparison": "below", "threshold": 0.1}


@pytest.fixture(scope="module")
def broken(bench: ServiceBench) -> ServiceBench:
    """A run whose loss became NaN in its sixth step, in the hour that the clock says."""
    run = RunScript(RUN_ID)
    bench.write(run.start(project="team", name="broken"))
    for step in range(1, 7):
        loss = float("nan") if step == 6 else 0.1
        bench.write(
            run.whole_step(step, 10.0 * (step - 1)),
            run.scalars(step, 10.0 * step, {"actor/pg_loss": loss, "critic/score/mean": 0.5}),
        )
    bench.clock.seconds = 70.0
    # A store that stumbles on a busy machine is asked again.
    for _ in range(5):
        bench.alert_desk.evaluator.process()
        if bench.service.alerts.list_alerts(run_id=RUN_ID):
            break
        bench.clock.seconds += 5.0
    return bench


@pytest.fixture
def api(broken: ServiceBench, client: TestClient) -> TestClient:
    return client


def get(client: TestClient, path: str) -> Any:
    answer = client.get(f"/api/v1{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_firing_alert_says_everything(api: TestClient):
    page = get(api, f"/alerts?state=firing&run={RUN_ID}")
    (alert,) = page["alerts"]
    assert set(alert) >= ALERT_KEYS
    assert page["next"] is None
    assert (alert["rule"], alert["severity"], alert["state"]) == ("loss.nan", "critical", "firing")
    assert alert["entity"] == {"kind": "run", "id": RUN_ID}
    assert alert["summary"].endswith("not finite: actor/pg_loss.")
    assert alert["link"].startswith("/run?id=team%2Fbroken&")
    assert alert["resolved_ns"] is None
    assert get(api, "/alerts?state=pending")["alerts"] == []
    runs = {run["run_id"]: run for run in get(api, "/runs")["runs"]}
    assert runs[RUN_ID]["open_alerts"] == 1


def test_events_come_newest_first_in_pages(api: TestClient):
    page = get(api, f"/alerts/events?run={RUN_ID}&limit=1")
    (event,) = page["events"]
    assert (event["rule"], event["kind"], event["notify"]) == ("loss.nan", "firing", True)
    assert event["entity"] == {"kind": "run", "id": RUN_ID}
    assert event["comment"] is None
    assert get(api, "/alerts/events?run=nobody")["events"] == []


def test_every_rule_says_why_it_is_quiet(api: TestClient):
    rules = {rule["rule_id"]: rule for rule in get(api, "/rules")["rules"]}
    assert len(rules) >= 35
    assert all(set(rule) >= RULE_KEYS for rule in rules.values())
    assert rules["loss.nan"]["quiet_because"] is None
    assert all(rule["quiet_because"] for name, rule in rules.items() if name != "loss.nan")
    (seen,) = (each for each in rules["reward.jump"]["inputs"] if each["run_id"] == RUN_ID)
    assert seen["state"] in {"quiet", "not_judgeable"}


def test_acknowledging_names_who(api: TestClient):
    (alert,) = get(api, f"/alerts?run={RUN_ID}")["alerts"]
    path = f"/api/v1/alerts/{alert['alert_id']}/ack"
    answer = api.post(path, json={"author": "ada", "comment": "looking"})
    assert answer.status_code == 200
    assert answer.json()["acknowledged"]["author"] == "ada"
    assert api.post(path, json={"author": " "}).status_code == 400
    assert api.post(path, json={}).status_code == 400
    assert api.post("/api/v1/alerts/nope/ack", json={"author": "a"}).status_code == 404


def test_users_rules_are_made_replaced_and_deleted(api: TestClient):
    made = api.post("/api/v1/rules", json=GOOD_RULE)
    assert made.status_code == 201
    rule_id = made.json()["rule_id"]
    assert api.post("/api/v1/rules", json=GOOD_RULE).status_code == 400
    changed = api.put(f"/api/v1/rules/{rule_id}", json={**GOOD_RULE, "threshold": 0.2})
    assert changed.json()["threshold"] == 0.2
    listed = {rule["rule_id"]: rule for rule in get(api, "/rules")["rules"]}
    assert listed[rule_id]["built_in"] is False
    assert api.delete(f"/api/v1/rules/{rule_id}").json() == {"deleted": rule_id}
    assert api.delete(f"/api/v1/rules/{rule_id}").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/rules", {"metric": "x"}, 400),
        ("POST", "/rules", [], 400),
        ("PUT", "/rules/kv.leak", GOOD_RULE, 400),
        ("DELETE", "/rules/kv.leak", None, 400),
        ("PUT", "/rules/user.none", GOOD_RULE, 404),
        ("POST", "/silences", {"rule": "gpu", "author": "a"}, 400),
        ("POST", "/silences", {"author": "a", "duration_s": 60}, 400),
        ("POST", "/silences", {"rule": "gpu", "duration_s": 60}, 400),
        ("POST", "/silences", {"rule": "no", "author": "a", "duration_s": 60}, 400),
        ("POST", "/silences", {"rule": "gpu", "author": "a", "duration_s": 1e12}, 400),
        ("POST", "/silences", {"rule": "gpu", "author": "a", "ends_ns": 1}, 400),
        ("DELETE", "/silences/none", None, 404),
        ("GET", "/alerts?state=loud", None, 400),
        ("GET", "/runs/no/such/run/alerts/replay", None, 404),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    api: TestClient, method: str, path: str, body: Any, status: int
):
    answer = api.request(method, f"/api/v1{path}", json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]


def test_silences_are_made_and_lifted(api: TestClient):
    made = api.post(
        "/api/v1/silences", json={"rule": "gpu", "author": "ada", "duration_s": 3600}
    ).json()
    assert made["ends_ns"] - made["created_ns"] == 3600 * 10**9
    assert [each["silence_id"] for each in get(api, "/silences")["silences"]] == [
        made["silence_id"]
    ]
    assert api.delete(f"/api/v1/silences/{made['silence_id']}").status_code == 200
    assert get(api, "/silences")["silences"] == []


def test_without_channels_there_are_none(api: TestClient):
    assert get(api, "/channels") == {"channels": [], "next": None}
    assert api.post("/api/v1/channels/test").json() == {"channels": [], "next": None}


def test_a_replay_changes_nothing(api: TestClient):
    before = get(api, "/alerts/events")
    (alert,) = get(api, f"/runs/{RUN_ID.replace('/', '%2F')}/alerts/replay")["alerts"]
    assert (alert["rule"], alert["first_step"]) == ("loss.nan", 6)
    assert get(api, "/alerts/events") == before


def test_a_rule_is_tried_on_the_past_before_it_is_saved(api: TestClient):
    answer = api.post(
        f"/api/v1/rules/preview?run={RUN_ID}",
        json={"metric": "step_duration_s", "threshold": 5.0},
    )
    assert [alert["rule"] for alert in answer.json()["alerts"]] == ["user.step-duration-s-above"]
    assert all(rule["built_in"] for rule in get(api, "/rules")["rules"])


def test_a_preview_tells_of_the_tried_rule_alone_and_of_what_would_have_fired(api: TestClient):
    other = {"metric": "step_duration_s", "threshold": 4.0, "rule_id": "user.other"}
    assert api.post("/api/v1/rules", json=other).status_code == 201
    for for_steps, expected in ((1, ["user.tried"]), (1_000, [])):
        answer = api.post(
            f"/api/v1/rules/preview?run={RUN_ID}",
            json={
                "metric": "step_duration_s", "threshold": 5.0,
                "rule_id": "user.tried", "for_steps": for_steps,
            },
        )  # fmt: skip
        assert [alert["rule"] for alert in answer.json()["alerts"]] == expected
    assert api.delete("/api/v1/rules/user.other").status_code == 200
