import contextlib

import pytest

from longpole_server.cli.listening import PortTakenError, bind, local_url, port_of
from longpole_server.errors import ServerError


def test_port_0_takes_a_free_one():
    with contextlib.closing(bind("127.0.0.1", 0)) as listener:
        assert port_of(listener) > 0


def test_a_taken_port_is_told_from_other_trouble():
    with contextlib.closing(bind("127.0.0.1", 0)) as listener:
        with pytest.raises(PortTakenError) as caught:
            bind("127.0.0.1", port_of(listener))
        assert str(port_of(listener)) in caught.value.message
    with pytest.raises(ServerError) as other:
        bind("192.0.2.1", 0)
    assert not isinstance(other.value, PortTakenError)
    assert "192.0.2.1" in other.value.message


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::1", "http://[::1]:80"),
        ("::", "http://[::1]:80"),
        ("gpu-7.example", "http://gpu-7.example:80"),
    ],
)
def test_the_address_that_this_machine_uses(host: str, url: str):
    assert local_url(host, 80) == url
