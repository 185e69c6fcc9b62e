import pytest

from longpole_server.errors import BusyError
from longpole_server.ingest.limits import InFlightMeter


def test_bytes_in_flight_are_bounded_and_given_back() -> None:
    meter = InFlightMeter(100)

    with meter.reserve() as first:
        first.add(60)
        with pytest.raises(BusyError), meter.reserve() as second:
            second.add(30)
            second.add(30)
        assert meter.num_bytes == 60

    assert meter.num_bytes == 0


def test_a_single_request_over_the_bound_is_let_in() -> None:
    meter = InFlightMeter(100)

    with meter.reserve() as only:
        only.add(150)
