"""A pipeline on a real journal with a writer that records, and stand-ins that misbehave."""

import threading
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from longpole.spool import Spool
from longpole_server.errors import StoreError
from longpole_server.ingest.pipeline import Normalizes, Pipeline
from longpole_server.ingest.signals import Signal
from longpole_server.model.records import MetricPoint, Records

# When requests arrive: a little after the times that tests give their spans.
RECEIVED_NS = 1_760_000_100_000_000_000


class RecordingWriter:
    """Keeps what was written by token. Fails while `failure` is set."""

    def __init__(self) -> None:
        self.batches: dict[str, Records] = {}
        self.tries: list[str] = []
        self.failure: Exception | None = None
        self.allowed = threading.Event()
        self.allowed.set()

    def write(self, records: Records, token: str) -> None:
        self.allowed.wait(60)
        self.tries.append(token)
        if self.failure is not None:
            raise self.failure
        self.batches.setdefault(token, records)

    def fail(self, message: str = "the database is away") -> None:
        self.failure = StoreError(message)

    @property
    def records(self) -> Records:
        """Everything written, in order."""
        merged = Records()
        for batch in self.batches.values():
            for name in Records.__slots__:
                getattr(merged, name).extend(getattr(batch, name))
        return merged

    @property
    def bodies(self) -> list[str]:
        """What `EchoNormalizer` made of the requests, in order."""
        return [point.name for point in self.records.metric_points]


class EchoNormalizer:
    """Makes one record of a request: its body as a name."""

    def __init__(self) -> None:
        self.received_ns: list[int] = []

    def normalize(self, signal: Signal, body: bytes, received_ns: int, into: Records) -> None:
        self.received_ns.append(received_ns)
        if body == b"defect":
            raise RuntimeError("a defect")
        into.metric_points.append(MetricPoint(signal, 1, 0, body.decode(), 0.0, received_ns))

    def normalize_many(
        self, signal: Signal, requests: Sequence[tuple[bytes, int]], into: Records
    ) -> bool:
        return False


@contextmanager
def running_pipeline(
    directory: Path,
    writer: RecordingWriter,
    normalizer: Normalizes | None = None,
    on_written: Callable[[Records], None] = lambda records: None,
    *,
    max_bytes: int = 64 << 20,
    max_waiting_bytes: int = 64 << 20,
    num_batch_ids: int = 1000,
    clock_ns: Callable[[], int] = lambda: RECEIVED_NS,
    max_batch_bytes: int = 1 << 20,
    start: bool = True,
    claim: Callable[[Sequence[str], str], Collection[str]] | None = None,
) -> Generator[Pipeline]:
    """A pipeline in `directory`; what it did not write is there for the next one."""
    with closing(Spool(directory / "journal", max_bytes=max_bytes, drop_oldest=False)) as spool:
        pipeline = Pipeline(
            spool,
            EchoNormalizer() if normalizer is None else normalizer,
            writer.write,
            on_written,
            state_dir=directory / "state",
            batch_interval_s=0.01,
            bulk_interval_s=0.01,
            max_batch_bytes=max_batch_bytes,
            max_waiting_bytes=max_waiting_bytes,
            num_batch_ids=num_batch_ids,
            claim=claim,
            clock_ns=clock_ns,
        )
        if start:
            pipeline.start()
        try:
            yield pipeline
        finally:
            writer.allowed.set()
            pipeline.close()
