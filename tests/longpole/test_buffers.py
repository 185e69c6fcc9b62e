import threading

from hypothesis import given
from hypothesis import strategies as st

from longpole.buffers import Buffer


def test_returns_records_in_order() -> None:
    buffer: Buffer[int] = Buffer(10)
    for record in range(5):
        buffer.append(record)
    assert buffer.take(3) == [0, 1, 2]
    assert buffer.take(3) == [3, 4]
    assert buffer.take(3) == []


def test_clear_counts_what_it_drops() -> None:
    buffer: Buffer[int] = Buffer(10)
    buffer.append(1)
    buffer.append(2)
    buffer.clear()
    assert (len(buffer), buffer.num_dropped) == (0, 2)


def test_counts_what_it_never_takes() -> None:
    buffer: Buffer[int] = Buffer(10)
    buffer.skip(3)
    buffer.skip(2)
    assert (len(buffer), buffer.num_dropped, buffer.num_skipped) == (0, 0, 5)


@given(
    st.lists(st.one_of(st.integers(0, 6).map(lambda n: (0,) * n), st.integers(1, 5))),
    st.integers(1, 20),
)
def test_holds_the_newest_within_its_bound_and_counts_the_rest(
    actions: list[tuple[int, ...] | int], limit: int
) -> None:
    buffer: Buffer[tuple[int, ...]] = Buffer(limit, weigh=len)
    expected: list[tuple[int, ...]] = []
    num_appended = num_taken = 0
    for action in actions:
        if isinstance(action, int):
            taken = buffer.take(action)
            assert taken == expected[:action]
            del expected[:action]
            num_taken += len(taken)
            continue
        buffer.append(action, len(action))
        num_appended += 1
        expected.append(action)
        while sum(1 + len(record) for record in expected) > limit:
            del expected[0]
    assert buffer.take(len(expected) + 1) == expected
    assert num_appended == num_taken + len(expected) + buffer.num_dropped


def test_counts_exactly_across_threads() -> None:
    buffer: Buffer[tuple[int, ...]] = Buffer(100, weigh=len)
    num_taken = 0

    def produce() -> None:
        for _ in range(2000):
            buffer.append((1, 2), 2)

    threads = [threading.Thread(target=produce) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        num_taken += len(buffer.take(7))
    for thread in threads:
        thread.join()
    num_left = len(buffer)
    assert num_left <= 33
    assert num_taken + num_left + buffer.num_dropped == 8000
    assert len(buffer.take(num_left)) == num_left
    buffer.append((1,) * 99, 99)
    assert len(buffer) == 1
