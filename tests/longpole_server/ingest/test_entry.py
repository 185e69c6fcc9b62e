import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.errors import BadRequestError
from longpole_server.ingest.entry import (
    MAX_BATCH_ID_CHARS,
    JournalEntry,
    check_batch_id,
    decode_entry,
    encode_entry,
)
from longpole_server.ingest.signals import SIGNALS, Signal


@given(
    st.sampled_from(SIGNALS),
    st.integers(0, 2**63 - 1),
    st.none() | st.text(min_size=1, max_size=MAX_BATCH_ID_CHARS),
    st.binary(),
)
def test_an_entry_comes_back(
    signal: Signal, received_ns: int, batch_id: str | None, body: bytes
) -> None:
    entry = JournalEntry(signal, received_ns, batch_id, body)

    assert decode_entry(encode_entry(entry)) == entry


@pytest.mark.parametrize("payload", [b"", b"\x01\x00", b"\x09" + b"\x00" * 20, b"\x01\x07" * 10])
def test_what_another_program_wrote_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match="journal entry"):
        decode_entry(payload)


def test_an_empty_batch_id_is_none() -> None:
    assert check_batch_id("") is check_batch_id(None) is None
    assert check_batch_id("agent/boot/7") == "agent/boot/7"


@pytest.mark.parametrize("batch_id", ["x" * (MAX_BATCH_ID_CHARS + 1), "a\nb", "\x00"])
def test_a_batch_id_that_makes_no_sense_is_refused(batch_id: str) -> None:
    with pytest.raises(BadRequestError):
        check_batch_id(batch_id)
