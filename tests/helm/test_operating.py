"""What an operator meets: upgrades, drains, alerts, and what the notes say of each."""

from typing import Any

import pytest

from longpole_server.api.waiting import create_waiting_app
from support.agent_asgi import call
from support.helm_child import Document, HelmChild, find
from support.helm_modes import MODES, Values, merge

MONITORED: Values = {
    "server": {"serviceMonitor": {"enabled": True}},
    "prometheusRule": {"enabled": True},
}


def list_groups(documents: list[Document]) -> list[str]:
    return [group["name"] for group in find(documents, "PrometheusRule")["spec"]["groups"]]


def read_pod(documents: list[Document], kind: str, name: str) -> Any:
    return find(documents, kind, name)["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("mode", "values", "groups"),
    [
        ("embedded", MONITORED, ["longpole-server", "longpole-agent"]),
        ("embedded", {"prometheusRule": {"enabled": True}}, ["longpole-agent"]),
        ("agents-only", {}, ["longpole-agent"]),
        ("web", {}, ["longpole-server", "longpole-web", "longpole-agent"]),
        ("web", {"agent": {"enabled": False}}, ["longpole-server", "longpole-web"]),
    ],
)
def test_nothing_is_told_of_as_down_that_nobody_scrapes(
    helm: HelmChild, mode: str, values: Values, groups: list[str]
) -> None:
    assert list_groups(helm.render(merge(MODES[mode], values))) == groups


def test_without_anything_scraped_there_are_no_alerts_and_the_notes_say_why(
    helm: HelmChild,
) -> None:
    values = merge(
        MODES["embedded"], {"agent": {"enabled": False}, "prometheusRule": {"enabled": True}}
    )
    assert "PrometheusRule" not in {document["kind"] for document in helm.render(values)}
    assert "Set server.serviceMonitor.enabled" in helm.render_notes(values)
    watched = merge(values, MONITORED)
    assert "Set server.serviceMonitor.enabled" not in helm.render_notes(watched)


def test_alerts_keep_what_prometheus_fills_in(helm: HelmChild) -> None:
    groups = find(helm.render(MODES["web"]), "PrometheusRule")["spec"]["groups"]
    summaries = [rule["annotations"]["summary"] for group in groups for rule in group["rules"]]
    assert "The agent at {{ $labels.instance }} does not answer." in summaries


@pytest.mark.parametrize("mode", ["external-clickhouse", "web"])
def test_a_pair_of_servers_does_not_hold_up_a_drain(helm: HelmChild, mode: str) -> None:
    values = merge(MODES[mode], {"server": {"podDisruptionBudget": {"enabled": True}}})
    budgets = [one for one in helm.render(values) if one["kind"] == "PodDisruptionBudget"]
    assert not any(one["metadata"]["name"].endswith("-server") for one in budgets)
    assert "none is made with server.standby" in helm.render_notes(values)
    assert "none is made with server.standby" not in helm.render_notes(MODES[mode])


def test_a_single_server_may_hold_up_a_drain(helm: HelmChild) -> None:
    budget = find(helm.render(MODES["large"]), "PodDisruptionBudget", "-server")
    assert budget["spec"]["maxUnavailable"] == 0


async def test_servers_that_show_wait_for_a_migration_of_any_length(helm: HelmChild) -> None:
    documents = helm.render(MODES["web"])
    (container,) = read_pod(documents, "Deployment", "-web")["containers"]
    app = create_waiting_app(lambda: "tables that the other server makes")
    statuses: dict[str, int] = {}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        answer = await call(app, "GET", container[probe]["httpGet"]["path"])
        assert answer is not None
        statuses[probe] = answer.status
    assert statuses == {"startupProbe": 200, "livenessProbe": 200, "readinessProbe": 503}
    assert container["startupProbe"]["failureThreshold"] >= 900
    spec = find(documents, "Deployment", "-web")["spec"]
    assert spec["progressDeadlineSeconds"] >= 1800


def test_a_server_that_shows_answers_until_nothing_leads_to_it(helm: HelmChild) -> None:
    pod = read_pod(helm.render(MODES["web"]), "Deployment", "-web")
    (container,) = pod["containers"]
    assert container["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "10"]
    assert pod["terminationGracePeriodSeconds"] == 40
    longer = merge(MODES["web"], {"web": {"drainS": 60}})
    assert read_pod(helm.render(longer), "Deployment", "-web")["terminationGracePeriodSeconds"] > 80
    never = merge(MODES["web"], {"web": {"drainS": 0}})
    (container,) = read_pod(helm.render(never), "Deployment", "-web")["containers"]
    assert "lifecycle" not in container


@pytest.mark.parametrize("mode", MODES)
def test_a_newer_chart_alone_restarts_no_pod(helm: HelmChild, mode: str) -> None:
    """Agents whose image is held back stay as they are while the server is exchanged."""
    for document in helm.render(MODES[mode]):
        if document["kind"] in {"StatefulSet", "DaemonSet", "Deployment"}:
            labels = document["spec"]["template"]["metadata"]["labels"]
            assert not {"helm.sh/chart", "app.kubernetes.io/version"} & set(labels)


def test_a_load_balancer_looks_at_the_server_over_tls_where_it_speaks_that(
    helm: HelmChild,
) -> None:
    values = merge(MODES["users"], {"server": {"ingress": {"controller": "alb"}}})
    annotations = find(helm.render(values), "Ingress")["metadata"]["annotations"]
    assert annotations["alb.ingress.kubernetes.io/backend-protocol"] == "HTTPS"
    assert annotations["alb.ingress.kubernetes.io/healthcheck-protocol"] == "HTTPS"
    plain = find(helm.render(MODES["everything"]), "Ingress")["metadata"]["annotations"]
    assert "alb.ingress.kubernetes.io/healthcheck-protocol" not in plain


@pytest.mark.parametrize(("mode", "name"), [("web", "-web"), ("web", "-server"),
                                            ("everything", "-agent")])  # fmt: skip
def test_names_are_resolved_where_dns_pods_listen_on_5353(
    helm: HelmChild, mode: str, name: str
) -> None:
    rules = find(helm.render(MODES[mode]), "NetworkPolicy", name)["spec"]["egress"]
    (dns,) = (rule["ports"] for rule in rules if {"port": 53, "protocol": "UDP"} in rule["ports"])
    assert {"port": 5353, "protocol": "UDP"} in dns
    assert {"port": 5353, "protocol": "TCP"} in dns


def test_notes_give_who_sends_to_the_server_itself_a_token(helm: HelmChild) -> None:
    direct = {"agent": {"otlp": {"exposure": "none"}}}
    notes = helm.render_notes(merge(MODES["large"], direct))
    secret = 'secretKeyRef: {name: longpole-gpu-nodes, key: "token"}'
    assert f"{{name: LONGPOLE_TOKEN, valueFrom: {{{secret}}}}}" in notes
    assert "networkPolicy.webFrom must let them reach" in notes
    assert "LONGPOLE_TOKEN" not in helm.render_notes(MODES["insecure"])
    notes = helm.render_notes(merge(MODES["users"], direct))
    assert "OTEL_EXPORTER_OTLP_CERTIFICATE" in notes
    assert "longpole-ca" in notes


@pytest.mark.parametrize("mode", ["embedded", "web", "agents-only"])
def test_notes_put_the_token_that_may_change_everything_into_no_trainers_pod(
    helm: HelmChild, mode: str
) -> None:
    """Without a token of its own for agents they named the Secret of the server's own."""
    notes = helm.render_notes(MODES[mode])
    (line,) = (line for line in notes.splitlines() if "name: LONGPOLE_TOKEN" in line)
    assert "secretKeyRef: {name: NAME, key: token}" in line
    assert "create-token trainers" in notes


@pytest.mark.parametrize("mode", ["embedded", "host-network", "cpu-nodes"])
def test_notes_tell_that_nodes_without_an_agent_reach_nobody(helm: HelmChild, mode: str) -> None:
    notes = helm.render_notes(MODES[mode])
    assert "On a node without an agent it reaches nobody, and what is sent is lost." in notes
    assert ("ci/cpu-nodes.yaml" in notes) == (mode != "cpu-nodes")
    assert '"http://longpole-server.observability.svc:8470"' in notes


@pytest.mark.parametrize("mode", ["cpu-nodes", "insecure"])
def test_agents_for_nodes_without_gpus_run_there(helm: HelmChild, mode: str) -> None:
    pod = read_pod(helm.render(MODES[mode]), "DaemonSet", "-agent")
    assert "nodeSelector" not in pod
    assert "runtimeClassName" not in pod
    assert "--no-nvml" in pod["containers"][0]["args"]
