"""What was acknowledged is there after the server ended, however it ended."""

import itertools
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import httpx
import pytest
import websockets.sync.client

from support.otlp_builders import T0_NS, loop, process, stage, traces
from support.server_process import ServerProcess, StartServer, run_longpole

pytestmark = pytest.mark.integration

RUN_ID = "restarts"
# Seconds after the builders' origin of time at which the pretend run goes on: now.
NOW_S = (time.time_ns() - T0_NS) // 10**9


def make_step(step: int) -> bytes:
    start_s = NOW_S + 10.0 * step
    return traces(
        (
            process(RUN_ID),
            [loop(step, start_s, start_s + 10.0), stage("gen", step, start_s, start_s + 6.0)],
        )
    )


def send_steps(server: ServerProcess, steps: Iterable[int]) -> list[int]:
    """Send steps until the server goes away; return those that it acknowledged."""
    acknowledged: list[int] = []
    for step in steps:
        try:
            if server.send("traces", make_step(step)).status_code == 200:
                acknowledged.append(step)
        except (httpx.HTTPError, RuntimeError):
            break
    return acknowledged


def check_steps(server: ServerProcess, acknowledged: list[int]) -> None:
    """Wait until every acknowledged step is there, once."""
    page = server.wait_for(
        f"/runs/{RUN_ID}/steps",
        lambda page: set(acknowledged) <= {s["step"] for s in page["steps"] if s["closed_by"]},
    )
    steps = [step["step"] for step in page["steps"]]
    assert steps == sorted(set(steps))
    assert {step["duration_s"] for step in page["steps"]} == {10.0}
    assert [attempt["attempt"] for attempt in server.get(f"/runs/{RUN_ID}")["attempts"]] == [1]


def end_during_load(server: ServerProcess, end: Callable[[], object]) -> list[int]:
    """End the server while steps are being sent; return what it acknowledged."""
    acknowledged: list[int] = []
    enough = threading.Event()

    def steps() -> Iterable[int]:
        for step in itertools.count(1):
            if step == 30:
                enough.set()
            yield step

    sender = threading.Thread(target=lambda: acknowledged.extend(send_steps(server, steps())))
    sender.start()
    enough.wait()
    end()
    sender.join()
    return acknowledged


def test_nothing_acknowledged_is_missing_after_ctrl_c(tmp_path: Path, start_server: StartServer):
    server = start_server(tmp_path, "--no-agent")
    statuses: list[int] = []
    acknowledged = end_during_load(server, lambda: statuses.append(server.interrupt()))
    assert statuses == [0], server.log
    assert len(acknowledged) >= 29
    again = start_server(tmp_path, "--no-agent")
    check_steps(again, acknowledged)
    assert again.interrupt() == 0


def test_nothing_acknowledged_is_missing_after_kill_9(tmp_path: Path, start_server: StartServer):
    server = start_server(tmp_path, "--no-agent")
    acknowledged = end_during_load(server, server.kill)
    assert len(acknowledged) >= 29
    again = start_server(tmp_path, "--no-agent")
    check_steps(again, acknowledged)
    # The run goes on in the same attempt.
    more = send_steps(again, range(1_000, 1_005))
    assert len(more) == 5
    check_steps(again, acknowledged + more)
    assert again.interrupt() == 0


def test_an_open_websocket_does_not_hold_the_server_up(tmp_path: Path, start_server: StartServer):
    server = start_server(tmp_path, "--no-agent")
    address = f"ws://127.0.0.1:{server.ports['http']}/_dash-ws-callback"
    with websockets.sync.client.connect(address, origin=server.url):  # type: ignore[arg-type]
        assert server.interrupt() == 0
    assert "Traceback" not in server.log


def test_a_second_server_on_the_same_data_says_so(server: ServerProcess):
    second = run_longpole("server", "--port", "0", "--data-dir", str(server.data_dir))
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1, second.stderr
    assert str(server.process.pid) in second.stderr


def test_a_taken_port_is_one_clear_line(server: ServerProcess, tmp_path: Path):
    port = str(server.ports["http"])
    second = run_longpole("server", "--port", port, "--data-dir", str(tmp_path / "other"))
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1, second.stderr
    assert f"port {port}" in second.stderr


def test_taken_otlp_ports_are_a_note(
    server: ServerProcess, tmp_path: Path, start_server: StartServer
):
    two = start_server(
        tmp_path,
        "--no-agent",
        f"--otlp-http-port={server.ports['otlp_http']}",
        f"--otlp-grpc-port={server.ports['otlp_grpc']}",
    )
    assert set(two.ports) == {"http"}
    assert two.log.count("note:") == 2
    assert two.get("/health")["status"] == "ok"
    assert two.interrupt() == 0
