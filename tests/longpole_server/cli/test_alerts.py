"""`longpole alerts`: what it prints, what it refuses, and that it tells no secret."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from longpole.cli import COMMANDS
from longpole_server.cli import alerts
from longpole_server.cli.alerts import main
from support.fake_slack import running_slack

Errors = pytest.CaptureFixture[str]


def test_a_sample_goes_to_the_channels_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: Errors
):
    with running_slack() as slack:
        monkeypatch.setenv("LONGPOLE_SLACK_WEBHOOK_URL", slack.webhook_url)
        # What a server alone would read makes no sense and does not matter here.
        monkeypatch.setenv("LONGPOLE_PORT", "nonsense")
        monkeypatch.setenv("LONGPOLE_SERVER", "http://127.0.0.1:19000")
        assert main(["test"]) == 0
        assert "http://127.0.0.1:19000" in str(slack.taken[-1])
        assert capsys.readouterr().out == "slack (slack_webhook): took it\n"
        assert slack.titles() == ["Longpole server: Test message"]
        slack.script.append("403")
        assert main(["test"]) == 1
    out = capsys.readouterr()
    assert out.out == "slack (slack_webhook): Slack answered 403: action_prohibited\n"
    assert "secret" not in out.out + out.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say what to do"),
        (["sing"], "say what to do"),
        (["test", "--server", "http://127.0.0.1:1"], "does not answer"),
        (["replay", "run", "--server", "http://127.0.0.1:1"], "does not answer"),
    ],
)
def test_what_cannot_be_done_is_one_line(words: list[str], said: str, capsys: Errors):
    assert main(words) in {1, 2}
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_wrong_channel_is_named_without_its_address(
    monkeypatch: pytest.MonkeyPatch, capsys: Errors
):
    monkeypatch.setenv("LONGPOLE_SLACK_WEBHOOK_URL", "very-secret")
    assert main(["test"]) == 2
    assert "secret" not in capsys.readouterr().err


def test_each_alert_of_a_replay_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: Errors, serve_json: Callable[[object], str]
):
    alert = {
        "started_ns": 1_700_000_000 * 10**9,
        "resolved_ns": 1_700_000_090 * 10**9,
        "first_step": 7,
        "severity": "critical",
        "rule": "gpu.lost",
        "entity": {"kind": "gpu", "id": "GPU-1"},
        "summary": "GPU n0/1 is silent.",
        "state": "resolved",
    }
    server = serve_json({"alerts": [alert], "next": None})
    assert main(["replay", "team/run", "--server", server]) == 0
    assert capsys.readouterr().out == (
        "2023-11-14 22:13:20 step 7 [critical] gpu.lost gpu GPU-1: GPU n0/1 is silent. "
        "(over after 90 s)\n"
    )
    assert main(["replay", "team/run", "--server", server, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["alerts"] == [alert]
    empty = serve_json({"alerts": [], "next": None})
    assert main(["replay", "team/run", "--server", empty]) == 0
    assert capsys.readouterr().out == "No rule would have fired in team/run.\n"


@pytest.fixture
def serve_json(request: pytest.FixtureRequest) -> Callable[[object], str]:
    """Serve an object at every path; return the server's address."""

    def serve(document: object) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(document).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()

        def stop() -> None:
            server.shutdown()
            thread.join()
            server.server_close()

        request.addfinalizer(stop)
        return f"http://127.0.0.1:{server.server_address[1]}"

    return serve


def test_the_module_is_what_the_command_loads():
    assert COMMANDS["alerts"].module == alerts.__name__
