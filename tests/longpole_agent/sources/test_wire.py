from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_agent.sources.wire import read_messages, read_text
from support.kubelet import MESSAGES

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=300)


@given(
    name=texts,
    cpu_ids=st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=5),
    resources=st.lists(st.tuples(texts, st.lists(texts, max_size=4)), max_size=4),
)
def test_reads_what_protobuf_writes(
    name: str, cpu_ids: list[int], resources: list[tuple[str, list[str]]]
) -> None:
    container: Any = MESSAGES["ContainerResources"](name=name, cpu_ids=cpu_ids)
    for resource, device_ids in resources:
        container.devices.add(resource_name=resource, device_ids=device_ids)
    data = container.SerializeToString()
    assert read_text(data, 1) == name
    devices = list(read_messages(data, 2))
    assert [
        (read_text(each, 1), [text.decode() for text in read_messages(each, 2)]) for each in devices
    ] == resources
    assert list(read_messages(data, 9)) == []


@given(data=st.binary(max_size=64), number=st.integers(1, 4))
def test_anything_else_is_one_kind_of_error(data: bytes, number: int) -> None:
    try:
        pieces = list(read_messages(data, number))
    except ValueError:
        return
    assert sum(map(len, pieces)) <= len(data)


def test_fixed_size_fields_are_passed_over() -> None:
    assert read_text(b"\x11" + b"\xff" * 8 + b"\x1d" + b"\xff" * 4 + b"\x0a\x01x", 1) == "x"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x0a\x05abc", "ends within a field"),
        (b"\x0a", "ends within a number"),
        (b"\xff" * 11, "too long"),
        (b"\x0b\x00", "unknown kind 3"),
        (b"\x09\x00", "ends within a field"),
    ],
)
def test_torn_messages(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(read_messages(data, 1))
