from collections.abc import Sequence
from typing import cast

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from longpole_server.api.paging import cut_page, make_cursor, read_cursor
from longpole_server.api.runs import create_runs_router
from longpole_server.errors import BadRequestError
from longpole_server.service import Service


@given(st.lists(st.integers(), max_size=50), st.integers(1, 60))
def test_pages_hold_every_item_once(items: list[int], limit: int):
    seen: list[int] = []
    cursor: str | None = None
    while True:
        page, cursor = cut_page(items, cursor, limit)
        assert len(page) <= limit
        seen += page
        if cursor is None:
            break
    assert seen == items


@given(st.integers(0, 10**9))
def test_cursors_come_back(offset: int):
    assert read_cursor(make_cursor(offset)) == offset


@given(st.text(max_size=20))
def test_no_text_breaks_a_cursor(text: str):
    try:
        assert read_cursor(text) >= 0
    except BadRequestError as error:
        assert "cursor" in error.message


@pytest.mark.parametrize("cursor", ["", "-", "bzE1eA", "ü", make_cursor(1 << 80)])
def test_foreign_cursors_are_refused(cursor: str):
    with pytest.raises(BadRequestError):
        read_cursor(cursor)


class ManySamples:
    """A service whose steps have one sample more than fits on a page; numbers stand for them."""

    samples = range(10_001)

    def list_trajectories(
        self, run_id: str, step: int, sort: str, limit: int, offset: int
    ) -> Sequence[int]:
        return list(self.samples)[offset : offset + limit]


def test_the_largest_page_of_samples_leads_to_the_rest():
    api = FastAPI()
    api.include_router(create_runs_router(cast("Service", ManySamples())))
    client = TestClient(api)
    path = "/runs/run/steps/1/trajectories?limit=10000"
    page = client.get(path).json()
    assert len(page["trajectories"]) == 10_000
    assert page["next"] is not None
    rest = client.get(f"{path}&cursor={page['next']}").json()
    assert rest == {"trajectories": [10_000], "next": None}
