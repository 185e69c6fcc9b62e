import logging

import pytest

from longpole.complaints import Complaints


def test_counts_each_and_logs_each_kind_once(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints()
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            complaints.report("nested_step", "step %d", number)
        complaints.report("invalid_step", "no step")
    assert complaints.count() == {"nested_step": 3, "invalid_step": 1}
    assert caplog.messages == ["longpole: step 0", "longpole: no step"]
