"""A report from the command line: asked for with the token, written whole or not at all."""

import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from longpole_server.cli.save_report import main

TOKEN = "secret"
REPORT = b"<!DOCTYPE html><html><body>Longpole report of run</body></html>"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path != "/report":
            self._answer(404, "text/plain", b"elsewhere")
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            body = b'{"error": {"message": "who are you", "hint": "send a token"}}'
            self._answer(401, "application/json", body)
        elif asked["run"] == "behind/proxy":
            self._answer(200, "text/html", b"<html>Sign in</html>")
        elif asked["run"] != "team/run 1":
            self._answer(404, "text/plain; charset=utf-8", b"no run 'other' see the list")
        else:
            self._answer(200, "text/html", REPORT + asked["zone"].encode())

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base names it
        pass


@pytest.fixture(scope="module")
def address() -> Generator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LONGPOLE_TOKEN", TOKEN)
    monkeypatch.chdir(tmp_path)


def test_a_report_is_saved_under_its_run_s_name_or_a_given_one(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["team/run 1", "--server", address]) == 0
    assert (tmp_path / "team-run-1-report.html").read_bytes() == REPORT + b"UTC"
    assert "team-run-1-report.html" in capsys.readouterr().out
    given = tmp_path / "kept.html"
    given.write_text("old")
    words = ["team/run 1", "-o", str(given), "--zone", "Europe/Berlin", "--server", address]
    assert main(words) == 0
    assert given.read_bytes() == REPORT + b"Europe/Berlin"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_report_on_standard_output(
    address: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["team/run 1", "-o", "-", "--server", address]) == 0
    assert capfdbinary.readouterr().out == REPORT + b"UTC"


def test_what_cannot_be_saved_says_why_and_leaves_nothing(
    address: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def complaint(status: int, *words: str) -> str:
        assert main([*words, "--server", address]) == status
        return capsys.readouterr().err

    assert "no run 'other'" in complaint(2, "other")
    assert "something else than a report" in complaint(1, "behind/proxy")
    missing = str(tmp_path / "nowhere" / "x.html")
    assert "No such file" in complaint(1, "team/run 1", "-o", missing)
    monkeypatch.setenv("LONGPOLE_TOKEN", "wrong")
    assert "who are you (send a token)" in complaint(1, "team/run 1")
    with pytest.raises(SystemExit) as refused:
        main(["team/run 1", "--zone", "Nowhere/At_All"])
    assert refused.value.code == 2
    assert "no time zone" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
