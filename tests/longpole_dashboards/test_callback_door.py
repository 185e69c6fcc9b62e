# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

"""What no page of ours sends is refused, and is no failure of the server."""

import json
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from longpole_dashboards.app import mount
from longpole_dashboards.callback_door import CALLBACK_PATH, SOCKET_PATH
from support.dashboard_fake_service import FakeService

URL = "http://longpole.example"


@pytest.fixture(scope="module")
def client() -> TestClient:
    made = FastAPI()
    mount(made, FakeService(1_760_000_000 * 10**9))
    return TestClient(made, base_url=URL)


def post(client: TestClient, body: bytes) -> int:
    headers = {"content-type": "application/json"}
    return client.post(CALLBACK_PATH, content=body, headers=headers).status_code


def make_call(client: TestClient, **changes: object) -> dict[str, Any]:
    """A call as a page makes it, of a callback that shows an address; with changes."""
    listed = client.get("/_dash-dependencies").json()
    found = next(each for each in listed if each["inputs"] and not each["clientside_function"])
    values: dict[str, list[dict[str, Any]]] = {
        kind: [{**each, "value": None} for each in found[kind]] for kind in ("inputs", "state")
    }
    return {"output": found["output"], "outputs": [], "changedPropIds": [], **values, **changes}


@pytest.mark.parametrize(
    "body",
    [b"", b"x", b"\xff", b"[]", b"1", b"null", b"{}", b'{"output": 1}', b"[" * 10_000],
    ids=range(9),
)
def test_a_body_that_is_no_call_is_a_bad_request(client: TestClient, body: bytes):
    assert post(client, body) == 400


def test_a_callback_of_another_release_is_not_found(client: TestClient):
    body = {"output": "none.children", "outputs": [], "inputs": [], "changedPropIds": []}
    assert post(client, json.dumps(body).encode()) == 404


@pytest.mark.parametrize(
    "changes",
    [
        {"inputs": []}, {"inputs": None}, {"inputs": [1]}, {"inputs": [[1]]}, {"inputs": {}},
        {"inputs": [{"id": "x", "property": "no", "value": 1}]}, {"state": "x"},
        {"state": [{}] * 9}, {"changedPropIds": 3}, {"changedPropIds": [3]}, {"outputs": 3},
        {"outputs": [3]},
    ],
    ids=range(12),
)  # fmt: skip
def test_a_call_with_other_values_than_its_callback_takes_is_refused(
    client: TestClient, changes: dict[str, Any]
):
    assert post(client, json.dumps(make_call(client, **changes)).encode()) == 400


@pytest.mark.parametrize(
    "path", ["x/y.js", "os/path.py", "dash/none.js", "dash/../app.py", "longpole_dashboards/app.py"]
)
def test_a_script_that_is_not_there_is_not_found(client: TestClient, path: str):
    assert client.get(f"/_dash-component-suites/{path}").status_code == 404


@pytest.mark.parametrize(
    "message",
    ["x", "[]", '{"type": "callback_request"}', '{"type": "callback_request", "payload": {}}'],
    ids=range(4),
)
def test_a_message_that_is_none_ends_its_websocket_alone(client: TestClient, message: str):
    with client.websocket_connect(SOCKET_PATH, headers={"Origin": "http://testserver"}) as opened:
        opened.send_text(message)
        with pytest.raises(WebSocketDisconnect) as ended:
            opened.receive_text()
    assert ended.value.code == 1007
