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


def test_a_client_s_own_line_of_a_header_does_not_count_beside_the_proxy_s():
    headers = Headers(
        raw=[
            (b"x-forwarded-for", b"6.6.6.6"),
            (b"x-forwarded-proto", b"https"),
            (b"x-forwarded-for", b"192.0.2.7"),
            (b"x-forwarded-proto", b"http"),
        ]
    )
    scope = {"type": "http", "client": ("10.0.0.1", 1), "scheme": "http"}
    peer = read_peer(scope, headers, PROXIES)
    assert (peer.address, peer.is_encrypted) == ("192.0.2.7", False)


def test_a_neighbour_of_the_proxy_names_nobody_without_its_secret():
    named = Proxies(PROXIES.networks, "x-forwarded-user", "s" * 32)
    scope = {"type": "http", "client": ("10.0.0.9", 1), "scheme": "http"}
    for secret in ("", "wrong", "s" * 31, "\xe9"):
        headers = Headers({"x-forwarded-user": "root", "x-longpole-proxy-secret": secret})
        assert read_peer(scope, headers, named).user is None
    headers = Headers({"x-forwarded-user": "ana", "x-longpole-proxy-secret": "s" * 32})
    assert read_peer(scope, headers, named).user == "ana"
    assert "ssss" not in repr(named)


def test_two_names_of_a_user_are_none():
    named = Proxies(PROXIES.networks, "x-forwarded-user")
    scope = {"type": "http", "client": ("10.0.0.1", 1), "scheme": "http"}
    both = [(b"x-forwarded-user", b"root"), (b"x-forwarded-user", b"ana")]
    assert read_peer(scope, Headers(raw=both), named).user is None
    assert read_peer(scope, Headers(raw=both[1:]), named).user == "ana"
