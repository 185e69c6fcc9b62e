"""The chart itself: lint, values that make no sense, its README."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from longpole import __version__
from support.helm_child import CHART, HelmChild, RefusedError
from support.helm_modes import Values, merge

TOKEN: Values = {"auth": {"existingSecret": "longpole-token"}}
CLICKHOUSE: Values = {"store": {"mode": "external", "clickhouse": {"url": "http://a:8123"}}}
ROOT = Path(__file__).parents[2]


def list_leaves(node: Any, schema: Any, path: str = "") -> Iterator[str]:
    """Yield paths of values that the schema says nothing about."""
    if not isinstance(node, dict) or "properties" not in schema:
        return
    for key, value in cast("Values", node).items():
        if key not in schema["properties"]:
            yield f"{path}.{key}"
        else:
            yield from list_leaves(value, schema["properties"][key], f"{path}.{key}")


def test_helm_finds_nothing_wrong(helm: HelmChild) -> None:
    assert [message for message in helm.lint() if message["severity"] > 1] == []


def test_chart_and_program_are_of_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_schema_knows_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert list(list_leaves(values, schema)) == []


def test_the_readme_is_made_from_the_values() -> None:
    path = ROOT / "helm" / "describe_values.py"
    spec = importlib.util.spec_from_file_location("describe_values", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (CHART / "README.md").read_text("utf-8")
    table = module.describe((CHART / "values.yaml").read_text("utf-8"))
    assert page == module.replace_table(page, table), "python helm/describe_values.py"
    named = {name for name, _, _ in module.list_values((CHART / "values.yaml").read_text("utf-8"))}
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert {name for name in list_names(values) if not is_described(name, named)} == set()


def list_names(node: Values, path: str = "") -> Iterator[str]:
    for key, value in node.items():
        if isinstance(value, dict) and value:
            yield from list_names(cast("Values", value), f"{path}{key}.")
        else:
            yield path + key


def is_described(name: str, named: set[str]) -> bool:
    return any(name == one or name.startswith(one + ".") for one in named)


def test_the_rules_are_those_of_prometheus_alone() -> None:
    rules = (ROOT / "deploy" / "prometheus" / "longpole.rules.yml").read_text()
    assert (CHART / "files" / "longpole.rules.yml").read_text() == rules, (
        "cp deploy/prometheus/longpole.rules.yml helm/longpole/files/"
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "auth.existingSecret is empty: name a Secret"),
        (merge(TOKEN, {"auth": {"insecure": True}}), "contradict each other"),
        (
            merge(TOKEN, {"server": {"enabled": False}, "agent": {"enabled": False}}),
            "there is nothing to install",
        ),
        (merge(TOKEN, {"server": {"enabled": False}}), "say by agent.serverUrl"),
        (merge(TOKEN, {"store": {"mode": "external"}}), "say by store.clickhouse.url"),
        (
            merge(TOKEN, {"store": {"clickhouse": {"url": "http://a:8123"}}}),
            "set store.mode=external",
        ),
        (merge(TOKEN, {"store": {"mode": "bundled"}}), "name by store.clickhouse.existingSecret"),
        (merge(TOKEN, {"web": {"replicas": 2}}), "Set store.mode to external or bundled"),
        (
            merge(TOKEN, {"web": {"replicas": 2}}, CLICKHOUSE),
            "name by auth.sessionSecret a Secret",
        ),
        ({"auth": {"accessSecret": "access"}}, "agents need a token of that file"),
        ({"auth": {"agentSecret": "nodes"}}, "alone lets nobody else in"),
        ({"auth": {"accessSecret": "access", "insecure": True}}, "contradict each other"),
        (
            merge(TOKEN, {"server": {"proxy": {"userHeader": "X-Forwarded-User"}}}),
            "server.proxy.addresses whose header counts",
        ),
        (
            merge(TOKEN, {"server": {"proxy": {"secret": "longpole-proxy"}}}),
            "say by server.proxy.userHeader",
        ),
        (
            merge(TOKEN, {"server": {"redaction": {"own": {"ticket": "a\nb"}}}}),
            "at '/server/redaction/own/ticket'",
        ),
        (merge(TOKEN, {"server": {"standby": True}}), "the embedded store has one process"),
        (
            merge(TOKEN, {"server": {"snapshots": {"enabled": True, "schedule": "daily"}}}),
            "at '/server/snapshots/schedule'",
        ),
        (
            merge(
                TOKEN,
                {"server": {"snapshots": {"enabled": True}, "persistence": {"enabled": False}}},
            ),
            "there is no volume to snapshot",
        ),
        (
            merge(
                TOKEN,
                {
                    "server": {"snapshots": {"enabled": True}},
                    "store": {"mode": "external", "clickhouse": {"url": "http://a:8123"}},
                },
            ),
            "back up your ClickHouse with its own BACKUP",
        ),
        (merge(TOKEN, {"server": {"ingress": {"enabled": True}}}), "name the host"),
        (merge(TOKEN, {"agent": {"runAsNonRoot": True}}), "agent.podResources.enabled=false"),
        (
            merge(
                TOKEN, {"agent": {"runAsNonRoot": True, "podResources": {"enabled": False}}}
            ),
            "agent.spool.type=emptyDir",
        ),
        (
            merge(
                TOKEN,
                {"agent": {"otlp": {"exposure": "hostNetwork"}, "podMonitor": {"enabled": True}}},
            ),
            "where Prometheus does not reach them",
        ),
        (
            merge(
                TOKEN,
                {
                    "agent": {"otlp": {"exposure": "hostNetwork"}},
                    "networkPolicy": {"webFrom": [{"podSelector": {}}]},
                },
            ),
            "networkPolicy.nodeCidrs",
        ),
        (
            merge(TOKEN, {"store": {"mode": "sqlite"}}),
            "at '/store/mode': value must be one of 'embedded', 'external', 'bundled'",
        ),
        (
            merge(TOKEN, {"server": {"replicas": 3}}),
            "at '/server': additional properties 'replicas' not allowed",
        ),
        (
            merge(TOKEN, {"server": {"retention": {"gpu_samples": "soon"}}}),
            "at '/server/retention/gpu_samples': 'soon' does not match pattern",
        ),
        (
            merge(TOKEN, {"agent": {"otlp": {"httpPort": 99999}}}),
            "at '/agent/otlp/httpPort': maximum: got 99,999, want 65,535",
        ),
        (
            merge(TOKEN, {"images": {"server": {"digest": "latest"}}}),
            "at '/images/server/digest'",
        ),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_words(
    helm: HelmChild, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        helm.render(values)
    assert message in str(refused.value)


def test_notes_tell_trainers_where_to_send(helm: HelmChild) -> None:
    notes = helm.render_notes(TOKEN)
    assert "http://longpole-agent.observability.svc:4318" in notes
    assert "fieldPath: spec.nodeName" in notes
    assert "get secret longpole-token" in notes
    assert "longpole access --data-dir /data add-user NAME" in notes
    assert "--set agent.hostPID=true" in notes
    naming: dict[str, Any] = {"addresses": ["10.0.0.0/8"], "userHeader": "X-Forwarded-Email"}
    named = merge(TOKEN, {"server": {"proxy": naming}})
    assert "every pod at 10.0.0.0/8 may name itself any user" in helm.render_notes(named)
    secret = merge(named, {"server": {"proxy": {**naming, "secret": "longpole-proxy"}}})
    assert "may name itself" not in helm.render_notes(secret)
    behind = merge(TOKEN, {"server": {"ingress": {"enabled": True, "host": "a.example.com"}}})
    assert "server.proxy.addresses is empty" in helm.render_notes(behind)
    assert "server.proxy.addresses" not in notes
    notes = helm.render_notes({"auth": {"insecure": True}})
    assert "NOBODY IS ASKED FOR A TOKEN" in notes
