# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import inspect
import re
from pathlib import Path

import dash
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

import longpole_dashboards
from longpole_dashboards.app import mount
from support.dashboard_fake_service import FakeService

NOW_NS = 1_760_000_000 * 10**9
ASSETS = Path(longpole_dashboards.__file__).parent / "assets"


@pytest.fixture(scope="module")
def api() -> FastAPI:
    made = FastAPI()

    @made.get("/api/v1/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    mount(made, FakeService(NOW_NS))
    return made


def test_a_link_into_the_middle_is_complete_as_the_first_request() -> None:
    made = FastAPI()
    mount(made, FakeService(NOW_NS))
    with TestClient(made) as client:
        page = client.get("/run?id=x").text
    assert "assets/longpole.js" in page
    assert "assets/longpole.css" in page


def test_pages_and_api_live_on_one_application(api: FastAPI) -> None:
    with TestClient(api) as client:
        for path in (
            "/",
            "/run?id=x",
            "/step?run=x&step=1",
            "/trajectory?run=x&id=y",
            "/compare?a=x&b=y",
            "/cluster",
            "/alerts",
        ):
            assert "Longpole" in client.get(path).text
        assert client.get("/api/v1/health").json() == {"status": "ok"}


def test_the_page_asks_for_nothing_from_other_hosts(api: FastAPI) -> None:
    with TestClient(api) as client:
        page = client.get("/").text
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert addresses
    assert not [address for address in addresses if re.match(r"(https?:)?//", address)]


def test_the_chart_library_is_fetched_by_a_name_with_its_version(api: FastAPI) -> None:
    with TestClient(api) as client:
        page = client.get("/run?id=x").text
        found = re.search(r'var address = "([^"]+plotly\.v[^"]+\.min\.js)"', page)
        assert found is not None
        script = client.get(found[1])
    assert script.status_code == 200
    assert "immutable" in script.headers["cache-control"]


def test_assets_name_no_other_host() -> None:
    for asset in ASSETS.rglob("*.*"):
        found = re.findall(r"https?://[^\s\"')]+", asset.read_text())
        assert set(found) <= {"http://www.w3.org/2000/svg"}, asset


def test_every_callback_that_runs_here_is_asynchronous(api: FastAPI) -> None:
    callbacks = [spec.get("callback") for spec in dash.get_app().callback_map.values()]
    served = [inspect.unwrap(callback) for callback in callbacks if callback is not None]
    assert len(served) >= 14
    assert all(inspect.iscoroutinefunction(callback) for callback in served)
