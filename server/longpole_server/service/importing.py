"""Log files put into the store as runs."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from longpole_server.importers import LogSource, check_run_id, import_records, make_run_id, unpack
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
    """

    def __init__(self, writer: SerialWriter, closer: StepCloser) -> None:
        self._writer = writer
        self._closer = closer

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
            BadRequestError: No run may have this id.
            UnreadableLogError: Nothing in it can be read.
            StoreError: The database failed; importing again goes on where it stopped.
        """
        # Who chose an id tells runs apart by it, whatever their files are called.
        title = run_id or name
        run_id = run_id or make_run_id(name)
        check_run_id(run_id)
        batch_id = _hash(file)
        sources = unpack(LogSource(name, lambda: file.open("rb"), modified_ns))
        steps: set[int] = set()
        for index, records in enumerate(import_records(sources, run_id, title)):
            self._writer.write(records, f"import/{batch_id}/{run_id}/{index}")
            self._closer.on_written(records)
            steps.update(
                point.step for point in records.metric_points if not is_validation(point.name)
            )
        return ImportedLog(run_id, batch_id, frozenset(steps))

    def settle(self, timeout_s: float) -> bool:
        """Wait until the steps of what was imported are derived; tell whether they are."""
        return self._closer.drain(timeout_s)


def _hash(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
