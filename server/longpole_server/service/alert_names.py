"""What people call what an alert is about: of a GPU its node and index, not its long id."""

import logging
from collections.abc import Mapping, Sequence

from longpole_server.alerts.history import GPU
from longpole_server.errors import StoreError
from longpole_server.model.alert import AlertEvent
from longpole_server.read import Reader

_logger = logging.getLogger(__name__)


class EntityNames:
    """Thread-safe.

    Args:
        reader: Reads which GPUs runs hold.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def find(self, events: Sequence[AlertEvent]) -> Mapping[str, str]:
        """Return names by id; what nobody knows is left out."""
        runs = {event.run_id for event in events if event.entity_kind == GPU and event.run_id}
        try:
            return {
                gpu.gpu_uuid: f"{gpu.host}/{gpu.gpu_index}"
                for run_id in sorted(runs)
                for gpu in self._reader.list_run_gpus(run_id)
            }
        except StoreError as error:
            # A long id is better than silence.
            _logger.warning("GPUs are called by their ids: %s", error.message)
            return {}
