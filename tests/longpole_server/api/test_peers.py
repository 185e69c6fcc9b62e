import pytest
from starlette.datastructures import Headers

from longpole_server.api.peers import Proxies, parse_networks, read_peer

PROXIES = Proxies(parse_networks("10.0.0.0/8, fd00::/8"))


@pytest.mark.parametrize(
    ("client", "forwarded", "address"),
    [
        ("10.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "6.6.6.6, 192.0.2.7, 10.9.9.9", "192.0.2.7"),
        ("::ffff:10.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "192.0.2.7:50123", "192.0.2.7"),
        ("10.0.0.1", "[2001:db8::7]:50123", "2001:db8::7"),
        ("10.0.0.1", "2001:db8::7", "2001:db8::7"),
        ("10.0.0.1", "192.0.2.7, 10.9.9.9:443", "192.0.2.7"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("203.0.113.9", "192.0.2.7", "203.0.113.9"),
    ],
    ids=range(9),
)
def test_the_client_is_the_last_that_no_trusted_proxy_is(client: str, forwarded: str, address: str):
    headers = Headers({"x-forwarded-for": forwarded})
    scope = {"type": "http", "client": (client, 1), "scheme": "http"}
    assert read_peer(scope, headers, PROXIES).address == address
