from pathlib import Path

import pytest

from longpole_server.config import Config, UpConfig, is_of_store, parse_size, read_config
from longpole_server.errors import ConfigError


def read(*words: str, **environ: str) -> UpConfig:
    return read_config(UpConfig, "up", words, environ)


def test_every_option_is_a_flag_and_a_variable():
    by_flag = read("--port", "0", "--no-agent", "--max-body-bytes", "1MiB", "--lost-after-s", "9")
    by_variable = read(
        LONGPOLE_PORT="0",
        LONGPOLE_NO_AGENT="1",
        LONGPOLE_MAX_BODY_BYTES="1048576",
        LONGPOLE_LOST_AFTER_S="9",
    )
    assert by_flag == by_variable
    assert by_flag.no_agent
    assert by_flag.max_body_bytes == 1 << 20


def test_retention_is_a_list_of_tables():
    config = read("--retention", "gpu_samples=7d, otel_traces=12h,host_samples=forever")
    assert config.retention == (
        ("gpu_samples", 7 * 86_400),
        ("otel_traces", 12 * 3_600),
        ("host_samples", None),
    )


def test_flags_win_over_the_environment():
    assert read("--port", "1", LONGPOLE_PORT="2").port == 1


def test_token_comes_from_environment_or_file_and_is_not_shown(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("s3cret-in-file\n")
    assert read("--token-file", str(file), LONGPOLE_TOKEN="other").token == "s3cret-in-file"
    assert read(LONGPOLE_TOKEN_FILE=str(file)).token == "s3cret-in-file"
    config = read(LONGPOLE_TOKEN="s3cret")
    assert config.token == "s3cret"
    assert "s3cret" not in repr(config)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--port", "eighty"], "--port: 'eighty' is not a port"),
        (["--port", "70000"], "--port: '70000' is not a port"),
        (["--max-body-bytes", "0"], "'0' is not a size"),
        (["--lost-after-s", "inf"], "not a positive number of seconds"),
        (["--alert-digest-s", "604801"], "more than a week"),
        (["--retention", "gpu_samples"], "is not like gpu_samples=14d"),
        (["--sql-max-rows", "0"], "not a positive number"),
        (["--no-such-option"], "unrecognized arguments: --no-such-option"),
        (["--token-file", "/nonexistent/token"], "cannot read the secret"),
        (["--host", "0.0.0.0"], "refusing to listen on 0.0.0.0 without a token"),
        (["--proxy-user-header", "X-User"], "anybody could name a user in that header"),
        (["--proxy-secret-file", "/dev/null"], "/dev/null"),
        (["--host", "example.org"], "refusing to listen on example.org without a token"),
    ],
)
def test_bad_words_are_one_clear_error(words: list[str], message: str):
    with pytest.raises(ConfigError) as caught:
        read(*words)
    assert message in caught.value.message


def test_a_bad_variable_is_named():
    with pytest.raises(ConfigError) as caught:
        read(LONGPOLE_NO_AGENT="maybe")
    assert caught.value.message == "LONGPOLE_NO_AGENT: 'maybe' is neither yes nor no"


def test_listening_beyond_loopback_needs_a_token_or_a_word():
    assert read("--host", "0.0.0.0", LONGPOLE_TOKEN="t").host == "0.0.0.0"
    assert read("--host", "0.0.0.0", "--insecure").insecure
    assert read("--host", "localhost").token is None
    assert read("--host", "::1").token is None


@pytest.mark.parametrize(
    ("text", "num_bytes"), [("512", 512), ("64MiB", 64 << 20), ("1.5 gib", 3 << 29)]
)
def test_sizes(text: str, num_bytes: int):
    assert parse_size(text) == num_bytes


def test_defaults_are_local():
    config = Config()
    assert (config.host, config.port) == ("127.0.0.1", 8470)
    assert not config.keep_text


def test_commands_on_a_store_have_its_options_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_config(Config, "migrate", ["--help"], {}, is_of_store)
    shown = capsys.readouterr().out
    assert "--data-dir" in shown
    assert "--clickhouse-url" in shown
    assert "--port" not in shown
    # What the server would refuse does not concern them.
    assert read_config(Config, "migrate", [], {"LONGPOLE_HOST": "0.0.0.0"}, is_of_store).port
