"""Coverage-guided fuzzing of what reads foreign bytes, by hand.

`PYTHONPATH=tests python tests/faults/fuzz.py TARGET` needs `pip install atheris`. TARGET is one of
the functions below; further arguments are libFuzzer's, such as `-max_total_time=60`. The suite
fuzzes the same with hypothesis.
"""

import gzip
import importlib
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

# It is not installed with the project, and carries no types.
atheris: Any = importlib.import_module("atheris")

with atheris.instrument_imports(include=["longpole", "longpole_server", "longpole_agent"]):
    from longpole.spool import Spool, SpoolError
    from longpole.spool.segment import HEADER_BYTES, encode_header, name_segment
    from longpole_agent.batch import Batch, BatchDecodeError, decode_batch
    from longpole_agent.sources.exposition import read_page
    from longpole_server.errors import ServerError
    from longpole_server.ingest.compression import decompress
    from longpole_server.ingest.entry import JournalEntry, decode_entry, encode_entry
    from longpole_server.ingest.normalize import Normalizer
    from longpole_server.ingest.otlp_json import build_request
    from longpole_server.ingest.signals import SIGNALS, parse_request
    from longpole_server.model.records import Records
    from support import otlp_builders as otlp
    from support.fault_journal import run_trial
    from support.fault_ledger import make_request
    from support.otlp_strategies import to_otlp_json

_MAX_BYTES = 1 << 20
_RECEIVED_NS = 1_760_000_000_000_000_000


def protobuf(data: bytes) -> None:
    """What is taken at the door is normalised without a defect."""
    for signal in SIGNALS:
        try:
            parse_request(signal, data)
        except ServerError:
            continue
        alone, together = Records(), Records()
        Normalizer([]).normalize(signal, data, _RECEIVED_NS, alone)
        many = Normalizer([], min_column_bytes=0)
        if many.normalize_many(signal, [(data, _RECEIVED_NS)] * 2, together):
            assert len(together) >= len(alone)


def otlp_json(data: bytes) -> None:
    """OTLP/JSON is refused or becomes a request."""
    for signal in SIGNALS:
        try:
            request = build_request(signal, data)
        except ServerError:
            continue
        Normalizer([]).normalize(signal, request.SerializeToString(), _RECEIVED_NS, Records())


def compressed(data: bytes) -> None:
    """Compressed bodies are refused or bounded."""
    with suppress(ServerError):
        assert len(decompress(data, _MAX_BYTES)) <= _MAX_BYTES


def records(data: bytes) -> None:
    """Records of spool and journal are read or refused."""
    with suppress(BatchDecodeError):
        decode_batch(data)
    with suppress(ValueError):
        decode_entry(data)


def prometheus(data: bytes) -> None:
    """Any page is read, line by line."""
    text = data.decode("utf-8", "replace")
    assert sum(1 for _ in read_page(text)) <= len(text.splitlines())


def segment(data: bytes) -> None:
    """Any file is a segment that opens, holds what it held, and takes more."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        content = data if data[:1] == b"L" else encode_header(1)[:HEADER_BYTES] + data
        (directory / name_segment(1)).write_bytes(content)
        try:
            spool = Spool(directory)
        except SpoolError:
            return
        before = [record.payload for record in spool]
        spool.append(b"more")
        spool.sync()
        assert [record.payload for record in spool] == [*before, b"more"]
        spool.close()


def journal(data: bytes) -> None:
    """What lies outside of damage is stored once through kills, whatever is damaged."""
    with tempfile.TemporaryDirectory() as folder:
        run_trial(Path(folder), data)


def make_seeds(directory: Path) -> None:
    """Write good inputs of every kind, for the fuzzer to begin with."""
    event = ("rl.stage.start", 0.0, {"rl.loop.iteration": 1, "rl.stage": "gen", "rl.start_ns": 5})
    bodies = {
        "traces": make_request("traces", 1),
        "metrics": make_request("metrics", 1),
        "logs": otlp.logs((otlp.process(), [event])),
    }
    for signal in SIGNALS:
        body = bodies[signal]
        document = json.dumps(to_otlp_json(parse_request(signal, body))).encode()
        for name, content in (("protobuf", body), ("json", document), ("gz", gzip.compress(body))):
            (directory / f"{signal}.{name}").write_bytes(content)
    batch = Batch("traces", b"body", "application/x-protobuf", "gzip", "agent/boot")
    (directory / "batch").write_bytes(batch.encode())
    entry = JournalEntry("logs", _RECEIVED_NS, "agent/boot/1", b"body")
    (directory / "entry").write_bytes(encode_entry(entry))
    for number in range(8):
        lives = bytes((number * 37 + at * at * 11) % 251 for at in range(120))
        (directory / f"lives{number}").write_bytes(lives)
    (directory / "page").write_text(
        '# TYPE a_total counter\na_total{b="c",d="e\\n"} 1.5 17\n{"u.v", x="y"} NaN # {z="1"} 2\n'
    )
    with tempfile.TemporaryDirectory() as folder:
        spool = Spool(Path(folder))
        spool.append(b"one")
        spool.append(b"two" * 20)
        spool.close()
        (directory / "segment").write_bytes((Path(folder) / name_segment(1)).read_bytes())


def main() -> None:
    """Fuzz the target that was named."""
    targets: dict[str, Callable[[bytes], None]] = {
        target.__name__: target
        for target in (protobuf, otlp_json, compressed, records, prometheus, segment, journal)
    }
    target = targets[sys.argv.pop(1)]
    with tempfile.TemporaryDirectory() as seeds:
        make_seeds(Path(seeds))
        atheris.Setup([*sys.argv, seeds], target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
