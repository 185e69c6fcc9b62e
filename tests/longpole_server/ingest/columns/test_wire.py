import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint

from longpole_server.ingest.columns.wire import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    UnfitError,
    find_alike,
    join_bodies,
    make_tag,
    scan,
    walk,
    walk_alike,
)


@given(
    st.lists(st.tuples(st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 32) - 1)), max_size=5)
)
def test_numbers_of_every_width(points: list[tuple[int, int]]) -> None:
    bodies = [
        NumberDataPoint(time_unix_nano=ts, flags=flags).SerializeToString() for ts, flags in points
    ]
    fields = scan(join_bodies(bodies))
    times = fields.select(3, FIXED64)
    assert times.values.tolist() == [ts for ts, _ in points if ts]
    assert fields.select(8, VARINT).values.tolist() == [flags for _, flags in points if flags]
    assert (np.diff(times.owners) >= 0).all()


def test_four_bytes_of_a_number() -> None:
    fields = scan(join_bodies([bytes([make_tag(1, FIXED32), 1, 2, 0, 0])]))
    assert fields.select(1, FIXED32).values.tolist() == [513]


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a",  # no length
        b"\x0a\x05ab",  # longer than the message
        b"\x08" + b"\xff" * 11,  # a number without an end
        b"\x09\x01",  # cut short
        b"\x0b",  # a group
        b"\x02\x00",  # field number 0
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a length of 64 bits
        b"\x08\x01" * 300,  # very many fields
    ],
)
def test_what_is_not_of_the_usual_form_is_unfit(body: bytes) -> None:
    with pytest.raises(UnfitError):
        scan(join_bodies([body, b"\x08\x01"]))


@pytest.mark.parametrize("body", [b"\x08\x01", b"\x0a", b"\x0a\x05a", b"\x0a" + b"\xff" * 11])
def test_walking_ends_at_what_has_no_length(body: bytes) -> None:
    with pytest.raises(UnfitError):
        list(walk(body, 0, len(body)))


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=300)), max_size=8))
def test_walking_alike_fields_notes_what_walking_reads(parts: list[tuple[int, bytes]]) -> None:
    body = b"".join(
        bytes([make_tag(number, LENGTH)]) + _varint(len(content)) + content
        for number, content in parts
    )
    tag = make_tag(2, LENGTH)
    starts: list[int] = []
    ends: list[int] = []
    stopped = walk_alike(body, 0, len(body), tag, starts, ends)
    read = [(start, end) for each, start, end in walk(body, 0, len(body)) if each == tag]
    noted = list(zip(starts, ends, strict=True))
    assert noted == read[: len(noted)]
    assert all(end <= stopped for end in ends)


_OPENING = b"\x0a\x10"


@given(
    st.lists(
        st.tuples(
            st.sampled_from([2, 2, 2, 1, 3]),
            st.binary(max_size=300) | st.binary(max_size=9).map(lambda rest: _OPENING + rest),
        ),
        max_size=60,
    ),
    st.integers(0, 2),
)
def test_fields_found_at_once_are_those_that_walking_reads(
    parts: list[tuple[int, bytes]], more: int
) -> None:
    tag = make_tag(2, LENGTH)
    # Long enough to be searched, with places inside that look like a beginning.
    alike = [(2, _OPENING + bytes([tag, 4]) * 50 + _OPENING)] * (40 + more)
    body = b"".join(
        bytes([make_tag(number, LENGTH)]) + _varint(len(content)) + content
        for number, content in (*alike, *parts)
    )
    starts, ends = find_alike(body, 0, len(body), tag, _OPENING)
    read = [(start, end) for each, start, end in walk(body, 0, len(body)) if each == tag]
    found = list(zip(starts.tolist(), ends.tolist(), strict=True))
    assert found == read[: len(found)]
    assert len(found) >= len(alike)


def test_what_is_cut_short_is_not_found() -> None:
    tag = make_tag(2, LENGTH)
    one = bytes([tag, 100]) + _OPENING + bytes(98)
    starts, ends = find_alike(one * 50 + one[:-1], 0, 51 * 102 - 1, tag, _OPENING)
    assert (len(starts), int(ends[-1])) == (50, 50 * 102)
    assert not len(find_alike(b"x" * 9000, 0, 9000, tag, _OPENING)[0])
    assert not len(find_alike(one, 0, len(one), tag, _OPENING)[0])


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])
