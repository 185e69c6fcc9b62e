import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_agent.batch import SIGNALS, Batch, BatchDecodeError, decode_batch


@given(
    batch=st.builds(
        Batch,
        signal=st.sampled_from(SIGNALS),
        body=st.binary(),
        content_type=st.text(),
        content_encoding=st.sampled_from(["", "gzip"]),
        origin=st.text(),
    )
)
def test_a_batch_survives_the_spool(batch: Batch) -> None:
    assert decode_batch(batch.encode()) == batch


def test_the_id_is_made_of_origin_and_sequence() -> None:
    assert Batch("logs", b"", "", "", "agent/boot").make_id(17) == "agent/boot/17"


@given(record=st.binary(max_size=200))
def test_foreign_records_are_refused(record: bytes) -> None:
    with pytest.raises(BatchDecodeError):
        decode_batch(record)


@pytest.mark.parametrize(
    "header", [b"[]", b'"x"', b"{}", b'{"signal":"profiles","type":"","encoding":"","origin":""}']
)
def test_foreign_headers_are_refused(header: bytes) -> None:
    with pytest.raises(BatchDecodeError):
        decode_batch(len(header).to_bytes(4, "little") + header)
