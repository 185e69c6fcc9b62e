"""A journal through several lives: requests, ranges, kills and damage as a string of bytes says.

What lies outside of what was damaged is stored once, whatever happens, and more is always taken.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from longpole.spool import Spool
from longpole.spool.segment import (
    HEADER_BYTES,
    RECORD_OVERHEAD_BYTES,
    find_segments,
    open_segment,
    read_segment,
)
from longpole_server.ingest.entry import JournalEntry, decode_entry, encode_entry
from longpole_server.ingest.journal import Batch, Journal

# Small, so that a few requests are several files.
_SEGMENT_BYTES = 400
_MAX_LIVES = 4
_MAX_STEPS = 200
_SIZES = (1, 7, 40, 150, 900)


class Choices:
    """Reads choices from bytes; when they are used up the first one is taken."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> int:
        """Return a number below `count`."""
        piece = self._data[self._at : self._at + 2]
        self._at += 2
        return int.from_bytes(piece, "little") % max(1, count)

    def take_bytes(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        self._at += count
        return piece


@dataclass
class Trial:
    """What was sent, what the store holds by token, and what damage may have cost."""

    directory: Path
    sent: list[bytes] = field(default_factory=list[bytes])
    stored: dict[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])
    damaged: set[bytes] = field(default_factory=set[bytes])
    # Without the record of ranges a range that was inserted and not acknowledged comes again.
    may_repeat: bool = False

    def send(self, spool: Spool, size: int) -> None:
        body = b"%d:" % len(self.sent) + b"x" * size
        entry = JournalEntry("traces", len(self.sent), f"a/b/{len(self.sent)}", body)
        spool.append(encode_entry(entry))
        spool.sync()
        self.sent.append(body)

    def insert(self, batch: Batch) -> None:
        """Insert as the database does: a token counts once."""
        self.stored.setdefault(batch.frozen.token, [entry.body for entry in batch.entries])

    def check(self) -> None:
        rows = [body for bodies in self.stored.values() for body in bodies]
        lost = set(self.sent) - set(rows) - self.damaged
        assert not lost, f"lost: {lost}"
        assert set(rows) <= set(self.sent)
        if not self.may_repeat:
            repeated = sorted({body for body in rows if rows.count(body) > 1})
            assert not repeated, f"twice: {repeated}"


def run_trial(directory: Path, data: bytes) -> None:
    """Live as `data` says, and check."""
    choices, trial = Choices(data), Trial(directory)
    for _ in range(1 + choices.take(_MAX_LIVES)):
        live(trial, choices)
        for _ in range(choices.take(3)):
            damage(trial, choices)
    finish(trial)
    trial.check()


def live(trial: Trial, choices: Choices) -> None:
    """One process that ends anywhere."""
    with opened(trial.directory) as (spool, journal):
        for _ in range(choices.take(9)):
            step = choices.take(4)
            if step < 2:
                trial.send(spool, _SIZES[choices.take(len(_SIZES))])
                continue
            batch = journal.freeze_next(1 + choices.take(600))
            if batch is not None and step == 3:
                trial.insert(batch)
                if choices.take(3):
                    journal.acknowledge(batch.frozen)


def finish(trial: Trial) -> None:
    """Take one more request, and store everything."""
    with opened(trial.directory) as (spool, journal):
        trial.send(spool, 1)
        for _ in range(_MAX_STEPS):
            batch = journal.freeze_next(300)
            if batch is None:
                break
            trial.insert(batch)
            journal.acknowledge(batch.frozen)
        else:
            raise AssertionError("it does not come to an end")
        assert spool.num_pending == 0


@contextmanager
def opened(directory: Path) -> Generator[tuple[Spool, Journal]]:
    spool = Spool(directory / "journal", segment_bytes=_SEGMENT_BYTES, drop_oldest=False)
    try:
        journal = Journal(spool, directory / "state", 1 << 20, 1000)
        try:
            yield spool, journal
        finally:
            journal.close()
    finally:
        spool.close()


def damage(trial: Trial, choices: Choices) -> None:
    """Damage a file: overwrite, cut, put something in between, or take it away."""
    files = sorted(path for path in trial.directory.rglob("*") if path.is_file())
    path = files[choices.take(len(files))]
    content = path.read_bytes()
    at = choices.take(len(content) + 1)
    kind = choices.take(5)
    junk = choices.take_bytes(1 + choices.take(40)) or b"\xff"
    if kind == 0:
        after, lost = content[:at] + junk + content[at + len(junk) :], (at, at + len(junk))
    elif kind == 1:
        length = choices.take(len(content) + 1)
        after, lost = content[:at] + bytes(length) + content[at + length :], (at, at + length)
    elif kind == 2:
        after, lost = content[:at], (at, len(content) + 1)
    elif kind == 3:
        # The next record is no longer where it should be; those behind it are looked for.
        after, lost = content[:at] + junk + content[at:], (at, max(at, HEADER_BYTES) + 1)
    else:
        after, lost = None, (0, len(content) + 1)
    note_damage(trial, path, lost)
    if after is None:
        path.unlink()
    elif after != content:
        path.write_bytes(after)


def note_damage(trial: Trial, path: Path, lost: tuple[int, int]) -> None:
    """Note which records have bytes in a part of a file."""
    is_ranges = path.parent.name == "ranges"
    for first, segment in find_segments(path.parent):
        if segment != path:
            continue
        with open_segment(path) as file:
            for record in read_segment(file, HEADER_BYTES, path.stat().st_size, first):
                begin = record.end - len(record.payload) - RECORD_OVERHEAD_BYTES
                if record.end > lost[0] and begin < lost[1]:
                    if is_ranges:
                        json.loads(record.payload)
                        trial.may_repeat = True
                    else:
                        trial.damaged.add(decode_entry(record.payload).body)
