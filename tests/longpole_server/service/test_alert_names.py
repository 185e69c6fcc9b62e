from collections.abc import Sequence

import pytest

from longpole_server.errors import StoreError
from longpole_server.model.gpu import RunGpu
from longpole_server.service.alert_names import EntityNames
from support.alert_events import make_event


class Gpus:
    """The GPUs that a run holds; a database that is down for other runs."""

    def list_run_gpus(self, run_id: str) -> Sequence[RunGpu]:
        if run_id != "team/run":
            raise StoreError("gone")
        return [RunGpu(run_id, 1, "node-7", "GPU-1", 3, "hybrid", 0, None, "pid")]


EVENTS = (make_event(1, entity_kind="gpu", entity_id="GPU-1"), make_event(2))


def test_gpus_are_called_by_node_and_index() -> None:
    assert EntityNames(Gpus()).find(EVENTS) == {"GPU-1": "node-7/3"}  # type: ignore[arg-type]


def test_a_name_that_cannot_be_read_keeps_no_message_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = [make_event(1, entity_kind="gpu", run_id="other")]
    assert EntityNames(Gpus()).find(events) == {}  # type: ignore[arg-type]
    assert "gone" in caplog.text
