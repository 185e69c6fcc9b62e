from pathlib import Path

from longpole_server.cli.up import make_children
from longpole_server.config import UpConfig
from longpole_sim.cli import parse_settings

URL = "http://127.0.0.1:9999"


def test_the_agent_gets_the_standard_ports_and_the_token(tmp_path: Path):
    config = UpConfig(data_dir=tmp_path, otlp_http_port=1, otlp_grpc_port=2, token="t")
    (agent,) = make_children(config, URL, {})
    assert agent.name == "agent"
    assert {"agent", f"--server={URL}", "--otlp-http-port=1", "--otlp-grpc-port=2"} <= set(
        agent.command
    )
    assert agent.environment["LONGPOLE_TOKEN"] == "t"
    assert not any("--token" in word for word in agent.command)


def test_the_servers_own_variables_do_not_reach_the_agent(tmp_path: Path):
    environ = {
        "PATH": "/bin",
        "LONGPOLE_DATA_DIR": "/elsewhere",
        "LONGPOLE_PORTS_FILE": "/ports",
        "LONGPOLE_HOST_NAME": "node-7",
    }
    (agent,) = make_children(UpConfig(data_dir=tmp_path), URL, environ)
    assert agent.environment == {"PATH": "/bin", "LONGPOLE_HOST_NAME": "node-7"}


def test_the_demo_comes_when_asked_and_is_not_repeated(tmp_path: Path):
    agent, demo = make_children(UpConfig(data_dir=tmp_path, demo=True), URL, {})
    assert agent.restarts
    assert demo.name == "demo"
    assert f"--public-url={URL}" in demo.command
    assert not demo.restarts
    assert make_children(UpConfig(data_dir=tmp_path, no_agent=True), URL, {}) == []


def test_the_demo_names_the_address_that_people_use(tmp_path: Path):
    config = UpConfig(data_dir=tmp_path, demo=True)
    _, demo = make_children(config, URL, {}, "https://longpole.example.com")
    assert {f"--server={URL}", "--public-url=https://longpole.example.com"} <= set(demo.command)
    settings = parse_settings([*demo.command[4:]], {})
    assert settings.url.startswith("https://longpole.example.com/run?id=")
