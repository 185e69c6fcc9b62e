"""Log files put into the store as runs."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from longpole_server.errors import BadRequestError
from longpole_server.importers import LogSource, import_records, unpack
from longpole_server.service.closing import StepCloser
from longpole_server.service.serial_writer import SerialWriter
from longpole_server.service.training_steps import is_validation

_MAX_ID_CHARS = 512
_CHUNK_BYTES = 1 << 20
DEFAULT_PREFIX = "import/"
# The API's routes below a run: an id that ends like one could not be told from it.
_ROUTE_ENDING = re.compile(
    r"(^|/)(steps(/\d+(/trajectories)?)?|trajectories(/.*)?|diagnosis|metrics|compare|alerts/replay)$"
)


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
        run_id = run_id or make_run_id(name)
        check_run_id(run_id)
        batch_id = _hash(file)
        sources = unpack(LogSource(name, lambda: file.open("rb"), modified_ns))
        steps: set[int] = set()
        for index, records in enumerate(import_records(sources, run_id, name)):
            self._writer.write(records, f"import/{batch_id}/{run_id}/{index}")
            self._closer.on_written(records)
            steps.update(
                point.step for point in records.metric_points if not is_validation(point.name)
            )
        return ImportedLog(run_id, batch_id, frozenset(steps))

    def settle(self, timeout_s: float) -> bool:
        """Wait until the steps of what was imported are derived; tell whether they are."""
        return self._closer.drain(timeout_s)


def make_run_id(name: str) -> str:
    """Return the id of a run imported from a file: `import/` and its stem."""
    run_id = DEFAULT_PREFIX + (Path(name).stem or "log")
    return f"{run_id}_" if _ROUTE_ENDING.search(run_id) else run_id


def check_run_id(run_id: str) -> None:
    """Refuse ids that no run may have.

    Raises:
        BadRequestError: It does not print, is too long, or ends like a route of the API.
    """
    if not run_id.isprintable() or len(run_id) > _MAX_ID_CHARS:
        raise BadRequestError(f"a run id is at most {_MAX_ID_CHARS} printable characters")
    if _ROUTE_ENDING.search(run_id):
        raise BadRequestError(
            f"the run id {run_id!r} ends like a route of the API", hint="choose another with ?run="
        )


def _hash(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
