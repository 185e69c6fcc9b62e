import random
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def every_session_ends() -> Iterator[None]:
    """A session left open swallows what later tests of this process record: the test fails."""
    yield
    recording = sys.modules.get("longpole.recording")
    if recording is not None and recording._process.session is not None:
        recording.shutdown(timeout_s=0.0)
        pytest.fail("this test left its session open")


@pytest.fixture(autouse=True)
def seeds_stay_inside() -> Iterator[None]:
    """Tests seed the process's generator, as trainers do."""
    before = random.getstate()
    yield
    random.setstate(before)
