import json
from collections.abc import Mapping, MutableMapping
from typing import Any

import pytest

from longpole_agent.receiver.answers import Receive, Send, respond
from longpole_agent.receiver.rl_insight_door import RlInsightDoor
from support.agent_asgi import call

PATH = "/api/v1/prometheus/targets"


class Peers:
    def find_sender(self, address: str, port: int) -> str:
        return "ray/s/01"

    def find_listener(self, port: int) -> str:
        return ""


class Door:
    def __init__(self) -> None:
        self.registered: list[Mapping[str, Any]] = []
        self.answer: tuple[int, bytes] = (200, b'{"status":"ok"}')
        self.app = RlInsightDoor(self._inner, self._register, Peers(), "node-1")

    def _register(self, body: bytes) -> tuple[int, bytes]:
        self.registered.append(json.loads(body))
        return self.answer

    async def _inner(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await respond(send, 418, b"inner", "text/plain")


@pytest.fixture
def door() -> Door:
    return Door()


async def test_services_name_the_port_that_was_asked(door: Door) -> None:
    answer = await call(door.app, "GET", "/api/v1/services")
    assert answer is not None
    assert answer.status == 200
    document = answer.json
    assert document.keys() == {"status", "otlp_port", "prometheus_port", "grafana_port"}
    assert (document["status"], document["prometheus_port"]) == ("ok", None)


async def test_a_registration_goes_on_with_this_node_and_the_sender_s_job(door: Door) -> None:
    body = {"job_name": "vllm", "targets": [{"target": "10.0.0.7:80", "labels": {"replica": "0"}}]}
    answer = await call(door.app, "POST", PATH, json.dumps(body).encode())
    assert answer is not None
    assert (answer.status, answer.json) == (200, {"status": "ok"})
    # The test's client names no address of its own, so that nothing is known of its job.
    assert door.registered == [{"host": "node-1", **body}]


async def test_the_server_s_refusal_is_the_client_s(door: Door) -> None:
    door.answer = (400, b'{"error":{}}')
    answer = await call(door.app, "POST", PATH, b'{"targets": []}')
    assert answer is not None
    assert (answer.status, answer.body) == (400, b'{"error":{}}')


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"x"'])
async def test_what_is_no_registration_is_refused_here(door: Door, body: bytes) -> None:
    answer = await call(door.app, "POST", PATH, body)
    assert answer is not None
    assert answer.status == 400
    assert answer.json["error"]["code"] == "bad_request"
    assert door.registered == []


async def test_a_registration_has_a_size(door: Door) -> None:
    answer = await call(door.app, "POST", PATH, [b"x" * (1 << 20), b"x"])
    assert answer is not None
    assert answer.status == 413


@pytest.mark.parametrize(("method", "path"), [("POST", "/api/v1/services"), ("GET", PATH)])
async def test_each_path_has_its_method(door: Door, method: str, path: str) -> None:
    answer = await call(door.app, method, path)
    assert answer is not None
    assert answer.status == 405


async def test_everything_else_is_for_the_receiver(door: Door) -> None:
    answer = await call(door.app, "POST", "/v1/traces", b"x")
    assert answer is not None
    assert answer.body == b"inner"


@pytest.mark.parametrize("header", ["origin", "sec-fetch-site"])
async def test_a_page_in_a_browser_of_this_machine_registers_nothing(
    door: Door, header: str
) -> None:
    body = {"targets": ["10.0.0.7:80"]}
    headers = {header: "cross-site", "content-type": "text/plain"}
    answer = await call(door.app, "POST", PATH, json.dumps(body).encode(), headers)
    assert answer is not None
    assert answer.status == 403
    assert door.registered == []
