import logging

import pytest

from longpole_server.ingest.normalize.skips import SkipGuard


def test_failures_are_counted_and_the_first_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    guard = SkipGuard("span")
    done: list[int] = []

    for index in range(4):
        with guard:
            if index % 2:
                raise ValueError(index)
            done.append(index)

    assert done == [0, 2]
    assert guard.num_skipped == 2
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "span" in caplog.text


def test_the_end_of_the_program_is_no_unreadable_record() -> None:
    guard = SkipGuard("span")

    with pytest.raises(KeyboardInterrupt), guard:
        raise KeyboardInterrupt

    assert guard.num_skipped == 0
