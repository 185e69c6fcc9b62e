"""Disks that fill up: what was acknowledged stays, the rest is told to come back."""

from pathlib import Path

import httpx
import pytest

from support.agent_upstream import FakeServer
from support.agent_waiting import wait_until
from support.fault_disk import fill, small_disk
from support.fault_ledger import KINDS, Kind, Ledger, make_request
from support.fault_load import Address, send_http
from support.fault_programs import make_agent, make_server
from support.server_process import ServerProcess
from support.store_opening import opened_store

pytestmark = pytest.mark.integration

PROTOBUF = {"content-type": "application/x-protobuf"}


def test_a_full_disk_under_the_spool(tmp_path: Path):
    server = FakeServer()
    server.answer = lambda _: (503, {"Retry-After": "1"})
    with small_disk(tmp_path / "agent", 2 << 20) as disk:
        agent = make_agent(disk, server.url, "--interval-s", "60")
        agent.start()
        address = Address()
        address.ports = agent.wait_for_ports()
        url = f"http://127.0.0.1:{address.ports['http']}"
        try:
            acknowledged: list[bytes] = []
            with httpx.Client(base_url=url, timeout=60.0) as client:

                def send(number: int) -> httpx.Response:
                    body = make_request("traces", number)
                    answer = client.post("/v1/traces", content=body, headers=PROTOBUF)
                    if answer.status_code == 200:
                        acknowledged.append(body)
                    return answer

                for number in range(20):
                    assert send(number).status_code == 200
                filler = fill(disk)
                refused = send(20)
                assert refused.status_code == 503
                assert int(refused.headers["retry-after"]) > 0
                assert b"No space left" in refused.content
                # Full or not, what it holds is delivered, and that is remembered.
                server.answer = lambda _: (200, {})
                wait_until(lambda: len(server.accepted_at("/v1/traces")) == 20)
                wait_until(lambda: client.get("/health").json()["spool"]["records"] == 0)
                filler.unlink()
                assert send(21).status_code == 200
            assert agent.stop() == 0, agent.log
            delivered = {one.batch_id: one.body for one in server.accepted_at("/v1/traces")}
            assert list(delivered.values()) == acknowledged
        finally:
            agent.kill()
            server.close()


def test_a_full_disk_under_journal_and_store(tmp_path: Path):
    ledger = Ledger()
    with small_disk(tmp_path / "server", 64 << 20) as disk:
        server = make_server(disk, journal_max_bytes=8 << 20)
        server.start()
        address = Address()
        address.ports = server.wait_for_ports()

        def send(num_requests: int) -> set[str]:
            outcomes: set[str] = set()
            for index in range(num_requests):
                kind: Kind = KINDS[index % 2]
                number = ledger.take()
                outcome = send_http(address, kind, number, f"owner/boot/{number}")
                ledger.note(kind, number, outcome)
                outcomes.add(outcome)
            return outcomes

        try:
            assert send(20) == {"acknowledged"}
            filler = fill(disk)
            # An insert that was under way leaves room behind when it fails.
            while "unknown" not in send(20):
                fill(disk)
            filler.unlink()
            assert send(20) == {"acknowledged"}
            assert server.stop() == 0, server.log
        finally:
            server.kill()
        with opened_store(disk / "data" / "store") as opened:
            print(ledger.check(opened))


SILENCE = {"rule": "gpu.lost", "author": "kim", "comment": "at night", "duration_s": 3600}
RULE = {"metric": "tokens_total", "threshold": 1, "title": "tokens"}


def test_a_silence_on_a_full_disk_is_refused_with_what_to_do(tmp_path: Path):
    with small_disk(tmp_path / "disk", 128 << 20) as disk:
        # Its log lies elsewhere.
        server = ServerProcess(tmp_path, "--no-agent", "--data-dir", str(disk / "data"))
        try:
            with httpx.Client(base_url=f"{server.url}/api/v1", timeout=60.0) as client:
                assert client.get("/silences").json()["silences"] == []
                filler = fill(disk)
                for path, document in (("/silences", SILENCE), ("/rules", RULE)):
                    refused = client.post(path, json=document)
                    assert refused.status_code == 503, refused.text
                    error = refused.json()["error"]
                    assert "was not saved, and nothing has changed. The disk" in error["message"]
                    assert "make room on the server's disk" in error["hint"]
                assert client.get("/silences").json()["silences"] == []
                filler.unlink()
                wait_until(lambda: client.post("/silences", json=SILENCE).status_code == 201)
        finally:
            server.kill()
