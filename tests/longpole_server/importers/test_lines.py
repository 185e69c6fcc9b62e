"""Bytes become lines: every line end, every block boundary, every mark and stray NUL."""

import codecs
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.importers import lines as lines_module
from longpole_server.importers.lines import read_blocks, read_lines
from longpole_server.importers.logged import LogSummary


@given(
    pieces=st.lists(st.sampled_from([b"a", b"step:1 - ", b"\r", b"\n", b"\r\n", b"\xe2\x96\x88"])),
    size=st.integers(min_value=1, max_value=7),
)
def test_block_boundaries_change_nothing(pieces: list[bytes], size: int) -> None:
    text = b"".join(pieces)
    blocks = [text[at : at + size] for at in range(0, len(text), size)]
    found = [line.rstrip(b"\r\n") for line in read_lines(blocks, LogSummary())]
    # A line end that is cut in two makes an empty line more.
    assert [line for line in found if line] == [line for line in text.splitlines() if line]


def test_only_the_last_line_may_have_no_end() -> None:
    summary = LogSummary()
    assert list(read_lines([b"a\nb\rc\r\nd"], summary)) == [b"a\n", b"b\r", b"c\r\n", b"d"]
    assert summary.torn_last_line
    assert summary.num_lines == 4


def test_a_progress_bar_at_the_end_is_not_torn() -> None:
    summary = LogSummary()
    list(read_lines(["a\nTraining Progress: 100%|██| 3/3 [00:14<00:00]".encode()], summary))
    assert not summary.torn_last_line


def test_hours_of_a_rewritten_progress_bar_do_not_swallow_the_step_behind_it() -> None:
    bars = b"Processed prompts:  12%|#2        | 12/800\r" * (9 << 20 // 44)
    summary = LogSummary()
    blocks = [bars[at : at + 65536] for at in range(0, len(bars), 65536)]
    last = list(read_lines([*blocks, b"step:1 - a/b:1\n"], summary))[-1]
    assert last == b"step:1 - a/b:1\n"
    assert summary.num_overlong == 0


def test_a_line_over_the_limit_is_skipped_and_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 8)
    summary = LogSummary()
    blocks = [b"ok\n123456789", b"0123456789", b"0123", b"45\nfine\n12345678", b"9"]
    assert list(read_lines(blocks, summary)) == [b"ok\n", b"fine\n"]
    assert summary.num_overlong == 2


def blocks_of(body: bytes, head: int = 64) -> bytes:
    stream = io.BytesIO(body)
    return b"".join(read_blocks(stream.read(head), stream))


def test_a_byte_order_mark_is_no_text() -> None:
    assert blocks_of(codecs.BOM_UTF8 + b"step:1") == b"step:1"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_of_a_powershell_redirection_becomes_utf8(encoding: str) -> None:
    text = "step:1 - a/b:1 ██\r\n" * 20
    mark = codecs.BOM_UTF16_LE if encoding.endswith("le") else codecs.BOM_UTF16_BE
    assert blocks_of(mark + text.encode(encoding), head=63).decode() == text


def test_nul_bytes_of_a_crash_vanish() -> None:
    assert blocks_of(b"a\n" + b"\x00" * 4096 + b"step:1\n") == b"a\nstep:1\n"
