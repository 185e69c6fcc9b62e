"""Consoles that print a step's metrics as one dictionary, over one line or several."""

import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from longpole_server.importers.literals import read_dictionary, split_finite
from longpole_server.importers.logged import LogSummary
from longpole_server.importers.rows import Row, clean_row, read_time_ns

# Processes that print a dictionary at the same time, and what one may hold.
_MAX_OPEN = 64
_MAX_CHARS = 4 << 20
_PRETTY_ROW = re.compile(r"^ '[^'\\]+': (?:'[^'\\]*'|[\d.e+-]+),$")
# No terminal is narrower or wider than this.
_MIN_WIDTH, _MAX_WIDTH = 40, 1000
_REACH_BYTES = 64
# Lines of others between the lines of one dictionary.
_MAX_FOREIGN_ROWS = 200


@dataclass(frozen=True, slots=True)
class Head:
    """Where a dictionary of metrics begins.

    Attributes:
        kind: Which of the format's dictionaries it is.
        number: The step it names, None when it names none.
        brace: Index of its opening brace in the row; the row's length when it stands in the next.
    """

    kind: str
    number: int | None
    brace: int


@dataclass(frozen=True, slots=True)
class Printed:
    """A dictionary of metrics.

    Attributes:
        scalars: Its finite numbers.
        sender: The process that Ray names, "" where it names none.
        time_ns: When the line says that it was printed, as if in UTC; None when it does not.
        torn: It ends in the middle.
    """

    kind: str
    number: int | None
    scalars: dict[str, float]
    sender: str
    time_ns: int | None
    torn: bool


@dataclass(slots=True)
class _Open:
    head: Head
    sender: str
    time_ns: int | None
    text: str
    num_foreign: int = 0
    numbers: dict[str, float] = field(default_factory=dict[str, float])


def read_printed(
    lines: Iterable[bytes],
    find_head: Callable[[str], Head | None],
    summary: LogSummary,
    needles: tuple[bytes, ...],
    *,
    text_numbers: bool = False,
    beside: Callable[[bytes], Iterable[Printed]] | None = None,
) -> Iterator[Printed]:
    """Yield the dictionaries that a console prints.

    Args:
        lines: Physical lines with their end, if they had one.
        find_head: Tells whether a dictionary begins in a row.
        summary: Learns of a torn last one, and of values that are not finite.
        needles: One of these stands in the row in which one begins, or over its border.
        text_numbers: Numbers are printed as texts.
        beside: Looks at every line first; what it makes of it is yielded too.
    """
    reader = _Reader(find_head, summary, text_numbers)
    skipped = b""
    for raw in lines:
        if beside is not None:
            yield from beside(raw)
        if reader.is_idle and not any(
            needle in skipped[-_REACH_BYTES:] + raw for needle in needles
        ):
            # Most lines of a log are other programs' and cost next to nothing this way.
            skipped = raw.rstrip(b"\r\n")
            continue
        if skipped:
            reader.pass_over(clean_row(skipped))
            skipped = b""
        yield from reader.take(clean_row(raw))
    yield from reader.finish()


class _Reader:
    def __init__(
        self, find_head: Callable[[str], Head | None], summary: LogSummary, text_numbers: bool
    ) -> None:
        self._find_head = find_head
        self._summary = summary
        self._text_numbers = text_numbers
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._before = Row("")

    @property
    def is_idle(self) -> bool:
        """Whether no dictionary is open."""
        return not self._open

    def pass_over(self, row: Row) -> None:
        """Take note of a row that holds nothing, but may hold the beginning of a head."""
        self._before = row

    def take(self, row: Row) -> Iterator[Printed]:
        head = self._find_head(row.text)
        if head is None and not row.sender and _MIN_WIDTH <= len(self._before.text) <= _MAX_WIDTH:
            # The terminal may have broken the head itself; only its first row has a sender.
            joined = Row(self._before.text + row.text, self._before.sender, row.ended)
            if self._before.sender not in self._open:
                head = self._find_head(joined.text)
            row = row if head is None else joined
        # What a head was found in is not looked at again.
        self._before = row if head is None else Row("")
        if head is not None:
            if row.sender in self._open:
                yield from self._tear(row.sender)
            time_ns = read_time_ns(row.text[: head.brace], self._summary.year)
            began = _Open(head, row.sender, time_ns, row.text[head.brace :])
            self._open[row.sender] = began
            yield from self._try(began)
            if len(self._open) > _MAX_OPEN:
                self._summary.num_unreadable += 1
                self._open.popitem(last=False)
        elif self._open:
            yield from self._extend(row)

    def finish(self) -> Iterator[Printed]:
        for sender in list(self._open):
            for torn in self._tear(sender):
                self._summary.torn_last_line = True
                self._summary.torn_step = torn.number
                yield torn

    def _extend(self, row: Row) -> Iterator[Printed]:
        sender = row.sender
        if not sender and "" not in self._open:
            # Rows of a terminal copied as lines, or a container's parts: no prefix before them.
            sender = next(reversed(self._open))
        began = self._open.get(sender)
        if began is None:
            return
        text = began.text + row.text
        if began.text.endswith(",") and _PRETTY_ROW.match(row.text):
            # One pair of a pretty-printed dictionary: it is read when the last one is there.
            began.text = text
            return
        if len(text) > _MAX_CHARS or not self._fits(text):
            began.num_foreign += 1
            if began.num_foreign > _MAX_FOREIGN_ROWS or len(text) > _MAX_CHARS:
                yield from self._tear(sender)
            return
        began.text = text
        yield from self._try(began)

    def _fits(self, text: str) -> bool:
        text = text.lstrip()
        return not text or read_dictionary(text, text_numbers=self._text_numbers).is_valid

    def _try(self, began: _Open) -> Iterator[Printed]:
        began.text = began.text.lstrip()
        if not began.text:
            return
        found = read_dictionary(began.text, text_numbers=self._text_numbers)
        began.numbers = found.numbers
        if not found.is_valid:
            # Something else than a dictionary stands where one was expected.
            del self._open[began.sender]
        elif found.end is not None:
            del self._open[began.sender]
            yield self._finish(began, torn=False)

    def _tear(self, sender: str) -> Iterator[Printed]:
        began = self._open.pop(sender)
        if began.text:
            yield self._finish(began, torn=True)

    def _finish(self, began: _Open, *, torn: bool) -> Printed:
        finite, others = split_finite(began.numbers)
        for name in others:
            self._summary.count_not_finite(name)
        scalars = {sys.intern(name): value for name, value in finite.items()}
        return Printed(
            began.head.kind, began.head.number, scalars, began.sender, began.time_ns, torn
        )
