from collections.abc import Iterator

import pytest

from longpole.hooks import taking


@pytest.fixture(autouse=True)
def nobody_speaks_yet() -> Iterator[None]:
    """Who speaks for a process does so to its end: each test is a process of its own."""
    before = (taking._State.taken_by, taking._State.opens)
    taking._State.taken_by, taking._State.opens = "", False
    yield
    taking._State.taken_by, taking._State.opens = before
