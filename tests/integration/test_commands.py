"""The commands against a real server: import, tokens, the agent beside it, migrate."""

import signal
from pathlib import Path
from urllib.parse import quote

import httpx
import psutil
import pytest

from support.agent_waiting import is_running, wait_until
from support.otlp_builders import loop, process, traces
from support.server_process import ServerProcess, StartServer, run_longpole

pytestmark = pytest.mark.integration

SAMPLES = Path(__file__).parents[1] / "data"
TOKEN = "a-token-for-tests"


def test_import_puts_logs_into_the_store(server: ServerProcess):
    files = [SAMPLES / "verl_console_long_tail.log", SAMPLES / "verl_file_sync_weights.jsonl"]
    for _ in range(2):
        done = run_longpole("import", *map(str, files), "--server", server.url)
        assert done.returncode == 0, done.stderr
        assert [line.count("/run?id=import%2F") for line in done.stdout.splitlines()] == [1, 1]
    for file in files:
        run = server.get("/runs/" + quote(f"import/{file.stem}", safe=""))
        assert run["state"] == "imported"
        assert run["num_steps"] > 0
        assert run["verdict"] is not None


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (None, 2, "no such file"),
        (b"\x00\x01" * 50, 2, "binary"),
        (b"hello\n" * 50, 2, ""),
    ],
)
def test_import_refuses_in_one_line(
    server: ServerProcess, tmp_path: Path, content: bytes | None, status: int, message: str
):
    file = tmp_path / "train.log"
    if content is not None:
        file.write_bytes(content)
    done = run_longpole("import", str(file), "--server", server.url)
    assert done.returncode == status
    assert done.stderr.startswith("longpole import: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_import_without_a_server_fails_in_one_line(tmp_path: Path):
    file = SAMPLES / "verl_file_balanced.jsonl"
    done = run_longpole("import", str(file), "--server", "http://127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert run_longpole("import", str(tmp_path), "--server", "http://127.0.0.1:1").returncode == 2


def test_a_token_protects_ingest_api_and_pages(tmp_path: Path, start_server: StartServer):
    server = start_server(tmp_path, "--no-agent", environment={"LONGPOLE_TOKEN": TOKEN})
    body = traces((process("guarded"), [loop(1, 0.0, 1.0)]))
    assert server.send("traces", body).status_code == 401
    assert server.client.get("/api/v1/runs").status_code == 401
    assert server.client.get("/").status_code == 401
    assert server.get("/health")["status"] == "ok"
    otlp = f"http://127.0.0.1:{server.ports['otlp_http']}/v1/traces"
    assert httpx.post(otlp, content=body, timeout=60.0).status_code in {401, 415}
    authorized = {"authorization": f"Bearer {TOKEN}"}
    assert server.send("traces", body, authorized).status_code == 200
    server.client.headers.update(authorized)
    server.wait_for("/runs/guarded/steps", lambda page: len(page["steps"]) == 1)
    assert server.client.get("/").status_code == 200
    file = str(SAMPLES / "verl_file_balanced.jsonl")
    assert run_longpole("import", file, "--server", server.url).returncode == 1
    done = run_longpole(
        "import", file, "--server", server.url, environment={"LONGPOLE_TOKEN": TOKEN}
    )
    assert done.returncode == 0, done.stderr
    assert server.interrupt() == 0
    assert TOKEN not in server.log


def test_listening_beyond_this_machine_needs_a_token(tmp_path: Path):
    refused = run_longpole("server", "--host", "0.0.0.0", "--data-dir", str(tmp_path))
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "token" in refused.stderr
    assert not (tmp_path / "store").exists()


def find_child(server: ServerProcess) -> int:
    """Return the process id of the agent that a server started."""
    return psutil.Process(server.process.pid).children()[0].pid


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_local_agent_delivers_and_ends_with_the_server(
    tmp_path: Path, start_server: StartServer, number: signal.Signals
):
    server = start_server(tmp_path, "--ports-file", str(tmp_path / "ports.json"))
    # The standard ports belong to the agent.
    assert set(server.ports) == {"http"}
    wait_until(lambda: "OTLP/HTTP on" in server.log)
    address = server.log.partition("OTLP/HTTP on ")[2].partition(",")[0]
    answer = httpx.post(
        f"http://{address}/v1/traces",
        content=traces((process("by/agent"), [loop(1, 0.0, 2.0)])),
        headers={"content-type": "application/x-protobuf"},
        timeout=60.0,
    )
    assert answer.status_code == 200
    server.wait_for("/runs/by%2Fagent/steps", lambda page: len(page.get("steps", ())) == 1)
    agent = find_child(server)
    server.process.send_signal(number)
    server.process.wait(timeout=60)
    server.client.close()
    wait_until(lambda: not is_running(agent))
    if number == signal.SIGINT:
        assert server.process.returncode == 0, server.log


def test_migrate_prepares_a_store(tmp_path: Path):
    for _ in range(2):
        done = run_longpole("migrate", "--data-dir", str(tmp_path))
        assert (done.returncode, done.stderr) == (0, "")
        assert "up to date" in done.stdout
