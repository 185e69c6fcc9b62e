"""Every route and websocket of a server on loopback that asks nobody who they are."""

from collections.abc import Generator

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from longpole_server.app import Application, open_application
from longpole_server.config import Config
from support.every_route import OTLP, list_requests, list_websockets


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Generator[Application]:
    with open_application(Config(data_dir=tmp_path_factory.mktemp("data"))) as opened:
        opened.start()
        yield opened


@pytest.mark.parametrize("site", ["same-origin", "cross-site"])
def test_a_name_that_a_stranger_points_at_a_laptop_reads_nothing(
    application: Application, site: str
):
    client = TestClient(application.api, base_url="http://evil.example:28480")
    page = {"Origin": "http://evil.example:28480", "Sec-Fetch-Site": site}
    requests = list_requests(application.api)
    assert {("POST", "/clickhouse/"), ("GET", "/clickhouse/ping"), ("POST", "/login")} <= requests
    for method, path in sorted(requests):
        status = client.request(method, path, headers=page, content=b"SELECT 1").status_code
        # Telemetry is refused by its own check of pages, in the protocol's own form.
        assert status == 403 or (path in OTLP and method == "POST" and status >= 400), (
            method,
            path,
        )
    for path in list_websockets(application.api):
        with pytest.raises(WebSocketDisconnect), client.websocket_connect(path, headers=page):
            pass
