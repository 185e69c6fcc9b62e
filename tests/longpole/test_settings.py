from pathlib import Path

import pytest

from longpole.errors import InvalidSetting
from longpole.settings import Endpoint, parse_endpoint, read_settings

OTEL = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("argument", "environ", "endpoint"),
    [
        (None, {}, "http://127.0.0.1:4318"),
        (None, {OTEL: "http://collector:4318/"}, "http://collector:4318"),
        (None, {OTEL: "http://c:1", "LONGPOLE_ENDPOINT": "http://l:2"}, "http://l:2"),
        ("http://a:3", {OTEL: "http://c:1", "LONGPOLE_ENDPOINT": "http://l:2"}, "http://a:3"),
        ("https://host/otlp/", {}, "https://host:443/otlp"),
        ("http://[::1]:4318", {}, "http://[::1]:4318"),
    ],
)
def test_endpoint_comes_from_argument_then_environment(
    argument: str | None, environ: dict[str, str], endpoint: str
) -> None:
    assert str(read_settings(argument, None, environ).endpoint) == endpoint


@pytest.mark.parametrize(
    "text", ["", "localhost:4318", "grpc://host:4317", "http://", "http://h:x"]
)
def test_endpoint_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="endpoint"):
        parse_endpoint(text)


def test_loopback_is_known() -> None:
    assert Endpoint("http", "127.0.0.1", 4318, "").is_loopback
    assert not Endpoint("http", "node7", 4318, "").is_loopback


def test_headers_of_others_go_only_to_the_endpoint_of_others() -> None:
    environ = {"OTEL_EXPORTER_OTLP_HEADERS": "api-key=theirs", OTEL: "http://c:1"}
    assert read_settings(None, None, environ).headers == "api-key=theirs"
    assert read_settings("http://longpole:8470", None, environ).headers == ""


def test_token_comes_from_argument_environment_or_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n")
    environ = {"LONGPOLE_TOKEN_FILE": str(file)}
    assert read_settings(None, None, {}).read_token() is None
    read_token = read_settings(None, None, environ).read_token
    assert read_token() == "from-file"
    file.write_text("rotated\n")
    assert read_token() == "rotated"
    environ["LONGPOLE_TOKEN"] = "from-environment"
    assert read_settings(None, None, environ).read_token() == "from-environment"
    assert read_settings(None, "argument", environ).read_token() == "argument"


def test_token_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    missing = {"LONGPOLE_TOKEN_FILE": str(tmp_path / "missing")}
    with pytest.raises(InvalidSetting, match="LONGPOLE_TOKEN_FILE"):
        read_settings(None, None, missing).read_token()
    with pytest.raises(InvalidSetting, match="token"):
        read_settings(None, "two\nlines", {}).read_token()


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "1e9"])
def test_heartbeat_must_be_sensible(text: str) -> None:
    assert read_settings(None, None, {"LONGPOLE_HEARTBEAT_S": "0.5"}).heartbeat_s == 0.5
    with pytest.raises(InvalidSetting, match="LONGPOLE_HEARTBEAT_S"):
        read_settings(None, None, {"LONGPOLE_HEARTBEAT_S": text})
