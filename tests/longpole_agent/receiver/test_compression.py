import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_agent.receiver.compression import BodyTooLargeError, DamagedBodyError, check_gzip


@given(parts=st.lists(st.binary(max_size=2000), min_size=1, max_size=4))
def test_whole_gzip_of_any_number_of_members_passes(parts: list[bytes]) -> None:
    body = b"".join(gzip.compress(part) for part in parts)
    size = sum(len(part) for part in parts)
    check_gzip(body, size)
    if size:
        with pytest.raises(BodyTooLargeError):
            check_gzip(body, size - 1)


@given(content=st.binary(min_size=1, max_size=500), data=st.data())
def test_cut_off_gzip_is_damaged(content: bytes, data: st.DataObject) -> None:
    body = gzip.compress(content)
    length = data.draw(st.integers(1, len(body) - 1))
    with pytest.raises(DamagedBodyError):
        check_gzip(body[:length], 10_000)


@given(body=st.binary(min_size=1, max_size=300))
def test_any_bytes_pass_or_are_damaged(body: bytes) -> None:
    try:
        expected = gzip.decompress(body)
    except (OSError, EOFError, zlib.error):
        with pytest.raises(DamagedBodyError):
            check_gzip(body, 1_000_000)
    else:
        check_gzip(body, len(expected))


def test_a_bomb_takes_no_memory() -> None:
    bomb = gzip.compress(bytes(80_000_000), 9)
    tracemalloc.start()
    with pytest.raises(BodyTooLargeError):
        check_gzip(bomb, 64_000_000)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 5_000_000
