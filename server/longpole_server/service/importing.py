"""Log files put into the store as runs."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from longpole_server.errors import BadRequestError
from longpole_server.importers import LogSource, check_run_id, import_records, make_run_id, unpack
from longpole_server.model.records import MetricPoint
from longpole_server.read import Reader
from longpole_server.service.closing import StepCloser
from longpole_server.service.serial_writer import SerialWriter
from longpole_server.service.training_steps import is_validation

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ImportedLog:
    """What an import did.

    Attributes:
        run_id: The run it became.
        batch_id: SHA-256 of the content.
        steps: Numbers of the training steps it holds.
    """

    run_id: str
    batch_id: str
    steps: frozenset[int]


class LogImporter:
    """Writes logs through the server's one writer.

    Args:
        writer: Takes the records.
        closer: Derives their steps.
        reader: Tells what a run holds already.
    """

    def __init__(self, writer: SerialWriter, closer: StepCloser, reader: Reader) -> None:
        self._writer = writer
        self._closer = closer
        self._reader = reader

    def import_log(
        self, file: Path, name: str, run_id: str | None, modified_ns: int
    ) -> ImportedLog:
        """Put a log into the store. The same content under the same run changes nothing.

        Args:
            file: The log, or an archive of the logs of one run.
            name: Its name where it came from.
            run_id: The run it becomes; made from `name` when None.
            modified_ns: When the log was last written: where its time axis ends, if it has none.

        Raises:
            BadRequestError: No run may have this id, or another log of the same name is this run.
            UnreadableLogError: Nothing in it can be read.
            StoreError: The database failed; importing again goes on where it stopped.
        """
        # Who chose an id tells runs apart by it, whatever their files are called.
        title = run_id or name
        is_chosen = run_id is not None
        run_id = run_id or make_run_id(name)
        check_run_id(run_id)
        batch_id = _hash(file)
        sources = unpack(LogSource(name, lambda: file.open("rb"), modified_ns))
        steps: set[int] = set()
        for index, records in enumerate(import_records(sources, run_id, title)):
            if not (is_chosen or steps):
                self._refuse_another(run_id, name, records.metric_points)
            self._writer.write(records, f"import/{batch_id}/{run_id}/{index}")
            self._closer.on_written(records)
            steps.update(
                point.step for point in records.metric_points if not is_validation(point.name)
            )
        return ImportedLog(run_id, batch_id, frozenset(steps))

    def _refuse_another(self, run_id: str, name: str, points: Sequence[MetricPoint]) -> None:
        """Refuse points whose first step the run knows otherwise: two logs would be mixed."""
        if not points:
            return
        first = min(points, key=lambda point: (point.attempt, point.step))
        known, _ = self._reader.get_scalars(run_id, first.attempt, first.step)
        said = {
            point.name: point.value
            for point in points
            if (point.attempt, point.step) == (first.attempt, first.step)
        }
        common = [metric for metric in said if metric in known]
        if 2 * sum(known[metric] != said[metric] for metric in common) > len(common):
            raise BadRequestError(
                f"the run {run_id} is another log of the name {name}: step {first.step} differs",
                hint="give this one an id of its own with --run (API: run=)",
            )

    def settle(self, timeout_s: float) -> bool:
        """Wait until the steps of what was imported are derived; tell whether they are."""
        return self._closer.drain(timeout_s)


def _hash(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
