import gzip
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.errors import BadRequestError, TooLargeError
from longpole_server.ingest.compression import decompress, is_compressed
from support import otlp_builders as otlp


@given(st.binary())
def test_what_was_compressed_comes_back(data: bytes) -> None:
    for compressed in (gzip.compress(data), zlib.compress(data)):
        assert is_compressed(compressed)
        assert decompress(compressed, 10_000) == data


def test_several_members_are_one_body() -> None:
    assert decompress(gzip.compress(b"ab") + gzip.compress(b"c"), 3) == b"abc"


def test_the_limit_holds_over_all_members() -> None:
    bomb = gzip.compress(b"\0" * 600) * 2

    with pytest.raises(TooLargeError, match="1000 bytes"):
        decompress(bomb, 1000)


def test_a_bomb_is_refused_long_before_it_is_unfolded() -> None:
    bomb = gzip.compress(b"\0" * (200 << 20), compresslevel=1)

    with pytest.raises(TooLargeError):
        decompress(bomb, 1 << 20)


def test_exactly_the_limit_is_taken() -> None:
    assert len(decompress(gzip.compress(b"\0" * 1000), 1000)) == 1000


@pytest.mark.parametrize(
    "data", [b"", b"plain", gzip.compress(b"abc")[:-4], gzip.compress(b"a") + b"rest"]
)
def test_what_is_damaged_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequestError):
        decompress(data, 1000)


@given(st.binary())
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    with suppress(BadRequestError):
        decompress(data, 1000)


def test_an_export_request_is_never_taken_for_a_compressed_one() -> None:
    assert not is_compressed(otlp.traces((otlp.process(), [otlp.loop(1, 0, 1)])))
    assert not is_compressed(b"")
