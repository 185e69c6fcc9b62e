import gzip
from collections import Counter

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.testclient import TestClient

from longpole_dashboards.compressed import CompressedFiles

SCRIPT = "const answer = 42;\n" * 500


class Site:
    """A site with a script, a picture, and a page; counts what it is asked for."""

    def __init__(self) -> None:
        self.asked = Counter[str]()
        self.site = Starlette()
        self.site.add_route("/assets/{name:path}", self.answer)
        self.site.add_route("/page", self.answer)
        self.files = CompressedFiles(self.site)
        self.client = TestClient(self.files)

    async def answer(self, request: Request) -> Response:
        path = request.url.path
        self.asked[path] += 1
        if path.endswith(".missing.js"):
            return PlainTextResponse("no such file" * 200, 404)
        kind = "image/png" if path.endswith(".png") else "application/javascript"
        text = "x" if path.endswith(".small.js") else SCRIPT
        return Response(text, media_type=kind, headers={"cache-control": "max-age=9"})


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_script_is_compressed_once(site: Site) -> None:
    for _ in range(3):
        answer = site.client.get("/assets/a.js")
        assert answer.text == SCRIPT
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["cache-control"] == "max-age=9"
        assert int(answer.headers["content-length"]) < len(SCRIPT) / 10
    assert site.asked["/assets/a.js"] == 1
    assert site.files.kept == {"/assets/a.js?": len(gzip.compress(SCRIPT.encode(), 7, mtime=0))}


@pytest.mark.parametrize(
    ("path", "is_kept"),
    [
        ("/assets/a.js?m=1796047723.6", True),
        ("/assets/a.small.js?m=1", True),
        ("/assets/a.v7_1_0m1795973331.min.js", True),
        ("/assets/a.js", False),
        ("/assets/a.js?n=1", False),
        ("/assets/a.missing.js?m=1", False),
    ],
)
def test_what_names_its_version_is_kept_by_browsers_for_good(
    site: Site, path: str, is_kept: bool
) -> None:
    for _ in range(2):
        answer = site.client.get(path)
        assert ("immutable" in answer.headers.get("cache-control", "")) == is_kept


def test_another_version_is_another_file(site: Site) -> None:
    site.client.get("/assets/a.js?m=1")
    site.client.get("/assets/a.js?m=2")
    assert site.asked["/assets/a.js"] == 2


def test_who_takes_none_compressed_gets_it_plain(site: Site) -> None:
    answer = site.client.get("/assets/a.js", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in answer.headers
    assert answer.text == SCRIPT


@pytest.mark.parametrize(
    "path", ["/page", "/assets/a.png", "/assets/a.small.js", "/assets/a.missing.js"]
)
def test_what_gains_nothing_is_left_as_it_is(site: Site, path: str) -> None:
    answer = site.client.get(path)
    assert "content-encoding" not in answer.headers
    assert site.files.kept == {}
    assert answer.status_code == (404 if "missing" in path else 200)


def test_what_is_kept_is_bounded(site: Site) -> None:
    files = CompressedFiles(site.site, max_kept_bytes=300)
    client = TestClient(files)
    for number in range(40):
        assert client.get(f"/assets/a.js?m={number}").text == SCRIPT
    assert 300 <= sum(files.kept.values()) < 300 + len(SCRIPT)
    assert "content-encoding" not in client.get("/assets/a.js?m=41").headers


def test_a_file_can_be_changed_before_it_is_compressed() -> None:
    site = Site()
    files = CompressedFiles(site.site, edit=lambda path, body: body.replace(b"42", path.encode()))
    assert TestClient(files).get("/assets/a.js").text == SCRIPT.replace("42", "/assets/a.js")
