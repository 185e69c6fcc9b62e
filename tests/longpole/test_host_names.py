import pytest

from longpole.host_names import is_loopback, is_own_host, read_host_name


@pytest.mark.parametrize(
    "header",
    [
        "", "localhost", "LocalHost:8470", "localhost.:8470", "longpole.localhost",
        "127.0.0.1:4318", "[::1]:4318", "10.1.2.3", "node-1:4318", "NODE-1",
    ],
)  # fmt: skip
def test_names_of_this_machine(header: str) -> None:
    assert is_own_host(header, {"node-1"})


@pytest.mark.parametrize(
    "header",
    [
        "rebound.example", "rebound.example:4318", "127.0.0.1.rebound.example", "localhost.example",
        "127.0.0.1,rebound.example", "notlocalhost", "node-1.rebound.example", "node-2",
        "me@rebound.example", "[rebound", "2130706433",
    ],
)  # fmt: skip
def test_names_of_strangers(header: str) -> None:
    assert not is_own_host(header, {"node-1"})


def test_a_name_is_read_without_its_port() -> None:
    assert read_host_name("Node-1.:80") == "node-1"
    assert read_host_name("[::1]:80") == "::1"
    assert read_host_name("[") is None


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("[::1]", True),
        ("localhost", True), ("0.0.0.0", False), ("::", False), ("node-1", False),
    ],
)  # fmt: skip
def test_who_reaches_an_address(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
