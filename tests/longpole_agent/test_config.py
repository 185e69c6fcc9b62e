import socket
from pathlib import Path

import pytest

from longpole_agent.config import parse_config
from longpole_agent.errors import ConfigError


def test_defaults_need_nothing() -> None:
    config = parse_config([], {})
    assert config.server == "http://127.0.0.1:8470"
    assert (config.otlp_host, config.otlp_http_port, config.otlp_grpc_port) == (
        "127.0.0.1",
        4318,
        4317,
    )
    assert config.interval_s == 1.0
    assert config.host_name == socket.gethostname()
    assert config.data_dir.parts[-2:] == ("longpole", "agent")
    assert config.token == ""
    assert not config.no_nvml
    assert config.simulated_gpus is None


def test_every_option_is_a_variable_and_the_command_line_wins() -> None:
    environment = {
        "LONGPOLE_SERVER": "http://a:1",
        "LONGPOLE_OTLP_HTTP_PORT": "1234",
        "LONGPOLE_NO_NVML": "true",
        "LONGPOLE_NO_OTLP": "0",
        "LONGPOLE_SIMULATED_GPUS": "/tmp/gpus.json",
    }
    config = parse_config(["--server", "http://b:2", "--interval-s", "0.5"], environment)
    assert config.server == "http://b:2"
    assert config.otlp_http_port == 1234
    assert config.no_nvml
    assert not config.no_otlp
    assert config.simulated_gpus == Path("/tmp/gpus.json")
    assert config.interval_s == 0.5


def test_the_token_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n")
    assert parse_config([], {"LONGPOLE_TOKEN": "direct"}).token == "direct"
    assert parse_config([], {"LONGPOLE_TOKEN_FILE": str(file)}).token == "from-file"
    both = {"LONGPOLE_TOKEN": "direct", "LONGPOLE_TOKEN_FILE": str(file)}
    assert parse_config([], both).token == "direct"
    option = ["--token-file", str(file)]
    assert parse_config(option, {"LONGPOLE_TOKEN": "direct"}).token == "from-file"


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (["--otlp-http-port", "70000"], {}, "--otlp-http-port: '70000'"),
        (["--otlp-grpc-port", "-1"], {}, "otlp-grpc-port"),
        (["--interval-s", "0"], {}, "--interval-s: '0' is no number of seconds"),
        (["--interval-s", "nan"], {}, "--interval-s: 'nan'"),
        (["--spool-bytes", "12"], {}, "--spool-bytes: '12'"),
        (["--nope"], {}, "unrecognized arguments: --nope"),
        ([], {"LONGPOLE_NO_NVML": "maybe"}, "LONGPOLE_NO_NVML: 'maybe' is neither"),
        ([], {"LONGPOLE_INTERVAL_S": "soon"}, "--interval-s: 'soon'"),
        (["--token-file", "/does/not/exist"], {}, "cannot read the token from /does/not/exist"),
    ],
)
def test_what_cannot_be_is_one_clear_error(
    arguments: list[str], environment: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(arguments, environment)


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_config(["--help"], {})
    text = capsys.readouterr().out
    for option in ("--server", "--token-file", "--simulated-gpus", "--no-nvml", "--ports-file"):
        assert option in text


def test_the_kubelets_socket_may_be_elsewhere_or_nowhere() -> None:
    name = "LONGPOLE_POD_RESOURCES_SOCKET"
    assert str(parse_config([], {}).pod_resources_socket).endswith("kubelet.sock")
    assert parse_config([], {name: "/k.sock"}).pod_resources_socket == Path("/k.sock")
    assert parse_config([], {name: ""}).pod_resources_socket is None
    assert parse_config(["--pod-resources-socket", ""], {}).pod_resources_socket is None
