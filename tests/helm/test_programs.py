"""What the chart asks of the programs, asked of the programs themselves."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from longpole_agent.config import Config as AgentConfig
from longpole_agent.config import parse_config
from longpole_agent.receiver.otlp_http import OtlpHttpApp
from longpole_agent.receiver.room import Room
from longpole_server.api.application import PREFIX
from longpole_server.api.own_state import create_state_router
from longpole_server.config import Config, read_config
from longpole_server.delivery.settings import read_settings
from longpole_server.ingest.normalize.free_text import choose_rules
from longpole_server.store.location import locate_store
from longpole_server.store.retention import choose_retention
from support.agent_asgi import call
from support.helm_child import HelmChild, find
from support.helm_modes import MODES, WITH_SERVER

WITH_AGENT = list(MODES)


def read_container(helm: HelmChild, mode: str, kind: str, name: str) -> tuple[Any, Any]:
    pod = find(helm.render(MODES[mode]), kind, name)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return pod, container


def move(text: str, root: Path) -> str:
    """Return an argument with the pod's paths of secrets below a folder of the test."""
    return text.replace("/run/secrets", str(root / "run" / "secrets"))


def lay_secrets(pod: Any, container: Any, root: Path) -> None:
    """Make the files that the kubelet would, from the volumes alone."""
    volumes = {volume["name"]: volume.get("secret") for volume in pod["volumes"]}
    for mount in container["volumeMounts"]:
        secret = volumes.get(mount["name"])
        if secret is None:
            continue
        folder = Path(move(mount["mountPath"], root))
        folder.mkdir(parents=True)
        items = secret.get("items", [{"path": "tls.crt"}, {"path": "tls.key"}])
        for item in items:
            content = "https://hooks.example.com/a" if "webhook" in item["path"] else "secret"
            content = "json://example.com" if item["path"] == "apprise-urls" else content
            (folder / item["path"]).write_text(content)


def find_rules(helm: HelmChild, mode: str, root: Path) -> Path | None:
    """Return the file of rules that the mode's ConfigMap makes, None without one."""
    for document in helm.render(MODES[mode]):
        if document["metadata"]["name"].endswith("-redaction"):
            file = root / "rules"
            file.write_text(document["data"]["rules"])
            return file
    return None


def read_environment(container: Any, root: Path) -> dict[str, str]:
    return {one["name"]: move(one.get("value", "node-1"), root) for one in container["env"]}


def list_own(environment: Mapping[str, str]) -> set[str]:
    return {name for name in environment if name.startswith("LONGPOLE_")}


@pytest.mark.parametrize("mode", WITH_SERVER)
def test_the_server_takes_its_arguments(helm: HelmChild, mode: str, tmp_path: Path) -> None:
    pod, container = read_container(helm, mode, "StatefulSet", "-server")
    lay_secrets(pod, container, tmp_path)
    environment = read_environment(container, tmp_path)
    command, *words = [move(word, tmp_path) for word in container["args"]]
    assert command == "server"
    config = read_config(Config, "server", words, environment)
    rules = find_rules(helm, mode, tmp_path)
    assert (config.redact_file is not None) == (rules is not None)
    choose_rules(config.redact, rules)
    # Also what is looked at later than the words themselves.
    read_settings(config)
    locate_store(config)
    choose_retention(config.retention)
    names = {"LONGPOLE_" + option.name.upper() for option in fields(Config)}
    assert list_own(environment) <= names | {name + "_FILE" for name in names}
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports.pop("web") == config.port
    listened = {"otlp-http": config.otlp_http_port, "otlp-grpc": config.otlp_grpc_port}
    assert ports == ({} if config.no_otlp else listened)
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["data"] == str(config.data_dir)
    assert config.host == "0.0.0.0"
    assert config.is_guarded != config.insecure
    assert config.role == ("ingest" if mode == "web" else "all")


def test_a_server_that_shows_takes_its_arguments(helm: HelmChild, tmp_path: Path) -> None:
    pod, container = read_container(helm, "web", "Deployment", "-web")
    lay_secrets(pod, container, tmp_path)
    environment = read_environment(container, tmp_path)
    command, *words = [move(word, tmp_path) for word in container["args"]]
    assert command == "server"
    config = read_config(Config, "server", words, environment)
    locate_store(config)
    assert config.is_web
    assert config.writer_url == "https://longpole-server.observability.svc:8470"
    assert config.writer_ca_file is not None
    assert config.writer_ca_file.is_file()
    assert (config.session_key, config.token, config.proxy_secret) == ("secret",) * 3
    assert config.access_file is not None
    names = {"LONGPOLE_" + option.name.upper() for option in fields(Config)}
    assert list_own(environment) <= names | {name + "_FILE" for name in names}
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {
        "web": config.port
    }


@pytest.mark.parametrize("mode", WITH_AGENT)
def test_the_agent_takes_its_arguments(helm: HelmChild, mode: str, tmp_path: Path) -> None:
    pod, container = read_container(helm, mode, "DaemonSet", "-agent")
    lay_secrets(pod, container, tmp_path)
    environment = read_environment(container, tmp_path)
    command, *words = container["args"]
    assert command == "agent"
    config = parse_config(words, environment)
    names = {"LONGPOLE_" + option.name.upper() for option in fields(AgentConfig)}
    assert list_own(environment) <= names | {"LONGPOLE_TOKEN_FILE"}
    assert config.host_name == "node-1"
    assert config.token == ("" if mode == "insecure" else "secret")
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"otlp-http": config.otlp_http_port, "otlp-grpc": config.otlp_grpc_port}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["data"] == str(config.data_dir)
    socket = config.pod_resources_socket
    assert (None if socket is None else str(socket.parent)) == mounts.get("pod-resources")
    for volume in pod["volumes"]:
        if volume["name"] == "data" and "emptyDir" in volume:
            assert volume["emptyDir"]["sizeLimit"] > config.spool_bytes


def test_agents_find_the_server_of_their_release(helm: HelmChild) -> None:
    for mode in WITH_SERVER:
        documents = helm.render(MODES[mode])
        services = [document["metadata"] for document in documents if document["kind"] == "Service"]
        (name,) = (one["name"] for one in services if one["name"].endswith("-server"))
        port = find(documents, "Service", "-server")["spec"]["ports"][0]["port"]
        (agent,) = find(documents, "DaemonSet")["spec"]["template"]["spec"]["containers"]
        scheme = "https" if mode in {"users", "web"} else "http"
        assert f"--server={scheme}://{name}.observability.svc:{port}" in agent["args"]


def test_numbers_arrive_as_they_were_written(helm: HelmChild) -> None:
    values: dict[str, Any] = {
        "auth": {"insecure": True},
        "server": {"maxBodyBytes": 67108864, "sqlDoor": {"maxRows": 20000000}},
        "agent": {"spool": {"bytes": 5368709120}},
    }
    documents = helm.render(values)
    (container,) = find(documents, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    config = read_config(Config, "server", container["args"][1:], {})
    assert (config.max_body_bytes, config.sql_max_rows) == (67108864, 20000000)
    (container,) = find(documents, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert parse_config(container["args"][1:], {}).spool_bytes == 5368709120


def test_the_defaults_are_the_programs_own(helm: HelmChild) -> None:
    """What the chart says explicitly must not lag behind what the programs think best."""
    documents = helm.render({"auth": {"insecure": True}})
    (container,) = find(documents, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    config = read_config(Config, "server", container["args"][1:], {})
    differing = {
        option.name for option in fields(Config)
        if getattr(config, option.name) != getattr(Config(), option.name)
    }  # fmt: skip
    assert differing == {"host", "data_dir", "insecure", "log_format"}
    (container,) = find(documents, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    agent, usual = parse_config(container["args"][1:], {}), parse_config([], {})
    differing = {
        option.name for option in fields(AgentConfig)
        if getattr(agent, option.name) != getattr(usual, option.name)
    }  # fmt: skip
    assert differing == {
        "server", "data_dir", "otlp_host", "require_otlp", "require_gpus", "log_format",
        "pod_resources_socket",
    }  # fmt: skip


def list_probes(container: Any) -> set[str]:
    return {probe["httpGet"]["path"] for name, probe in container.items() if name.endswith("Probe")}


def test_probes_ask_for_routes_that_exist(helm: HelmChild) -> None:
    _, server = read_container(helm, "embedded", "StatefulSet", "-server")
    routes = {PREFIX + route.path for route in create_state_router(dict[str, bool]).routes
              if isinstance(route, Route)}  # fmt: skip
    assert list_probes(server) <= routes
    _, agent = read_container(helm, "embedded", "DaemonSet", "-agent")
    assert list_probes(agent) == {"/health", "/ready", "/live"}


async def test_agents_answer_those_probes() -> None:
    async def store(*_: object) -> None:
        raise AssertionError

    state = {"ready": True, "live": True}
    app = OtlpHttpApp(store, Room(1), 1, lambda: state)
    for path in ("/health", "/ready", "/live"):
        answer = await call(app, "GET", path)
        assert answer is not None
        assert answer.status == 200
