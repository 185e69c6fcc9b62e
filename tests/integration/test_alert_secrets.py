"""Canary secrets: none of them is in the log, in an answer of the API, or in an error."""

from pathlib import Path

import pytest

from support.agent_waiting import wait_until
from support.fake_slack import SECRET_PATH, SECRET_TOKEN, running_slack
from support.server_process import StartServer, run_longpole

pytestmark = pytest.mark.integration

APPRISE_SECRET = "apprise-canary-word"
TOKEN = "server-token-canary-word"
CANARIES = (SECRET_PATH, SECRET_TOKEN, "very-secret-word", APPRISE_SECRET, TOKEN)
PATHS = (
    "/api/v1/channels", "/api/v1/rules", "/api/v1/alerts", "/api/v1/alerts/events",
    "/api/v1/silences", "/api/v1/runs", "/api/openapi.json", "/metrics", "/healthz", "/readyz",
    "/alerts", "/api/v1/nothing", "/api/v1/alerts?state=loud", "/api/v1/audit",
)  # fmt: skip


def find_canaries(text: str) -> list[str]:
    return [word for word in CANARIES if word in text]


def test_no_surface_shows_a_secret(tmp_path: Path, start_server: StartServer):
    with running_slack() as slack:
        environment = {
            "LONGPOLE_TOKEN": TOKEN,
            "LONGPOLE_SLACK_WEBHOOK_URL": slack.webhook_url,
            "LONGPOLE_SLACK_BOT_TOKEN": SECRET_TOKEN,
            "LONGPOLE_SLACK_CHANNEL": "C042",
            "LONGPOLE_SLACK_API_URL": slack.api_url,
            "LONGPOLE_APPRISE_URLS": f"json://user:{APPRISE_SECRET}@127.0.0.1:9/{APPRISE_SECRET}",
        }
        server = start_server(tmp_path, "--no-agent", environment=environment)
        server.client.headers["authorization"] = f"Bearer {TOKEN}"
        # Two channels and as many requests fail in a way of their own each.
        for behaviour in ("500", "garbage", "403", "page"):
            slack.default = behaviour
            answer = server.client.post("/api/v1/channels/test")
            assert answer.status_code == 200, answer.text
            errors = [channel["error"] for channel in answer.json()["channels"]]
            assert len(errors) == 3
            assert all(errors), "each says that it failed"
            assert find_canaries(answer.text) == []
        wait_until(lambda: slack.num_requests >= 8)
        for path in PATHS:
            answer = server.client.get(path)
            assert find_canaries(answer.text) == [], path
            assert find_canaries(str(dict(answer.headers))) == [], path
        tested = run_longpole("alerts", "test", "--server", server.url, environment=environment)
        assert tested.returncode == 1
        assert find_canaries(tested.stdout + tested.stderr) == []
        examined = run_longpole("doctor", "--server", server.url, environment=environment)
        assert "alerts" in examined.stdout
        assert find_canaries(examined.stdout + examined.stderr) == []
        assert server.interrupt() == 0, server.log
        assert find_canaries(server.log) == []
        # What lies on disk is what backups take along.
        files = [path for path in server.data_dir.rglob("*") if path.is_file()]
        assert files
        for path in files:
            assert find_canaries(path.read_bytes().decode("latin-1")) == [], path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LONGPOLE_APPRISE_URLS", f"nonsense://{APPRISE_SECRET}"),
        ("LONGPOLE_SLACK_WEBHOOK_URL", f"ftp://{APPRISE_SECRET}"),
        ("LONGPOLE_SLACK_BOT_TOKEN", APPRISE_SECRET),
        ("LONGPOLE_ALERT_ROUTES", "slack=loud"),
    ],
)
def test_a_channel_that_makes_no_sense_is_refused_in_a_line(tmp_path: Path, name: str, value: str):
    done = run_longpole(
        "server", "--port", "0", "--no-otlp", "--data-dir", str(tmp_path / "data"),
        environment={name: value},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("longpole: ")
    assert find_canaries(done.stderr) == []
    assert not (tmp_path / "data").exists(), "refused before anything is opened"
