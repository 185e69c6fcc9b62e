import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.errors import BadRequestError
from longpole_server.service.scrape_addresses import (
    host_of,
    is_loopback,
    is_same_host,
    normalise_address,
    parse_target,
)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("10.0.0.7:9092", "10.0.0.7:9092"),
        ("Node-7.Cluster.local:8000", "node-7.cluster.local:8000"),
        ("node_7:1", "node_7:1"),
        ("node-7.:9092", "node-7:9092"),
        ("localhost:65535", "localhost:65535"),
        ("127.0.0.1:9092", "127.0.0.1:9092"),
        ("[2001:DB8:0:0::7]:9092", "[2001:db8::7]:9092"),
        ("[::1]:9092", "[::1]:9092"),
        ("[::ffff:10.0.0.7]:9092", "10.0.0.7:9092"),
        ("7-eleven:80", "7-eleven:80"),
    ],
)
def test_targets_have_one_spelling(text: str, parsed: str):
    assert parse_target(text) == parsed
    assert parse_target(parsed) == parsed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "node-7",
        "node-7:",
        ":9092",
        "node-7:0",
        "node-7:65536",
        "node-7:port",
        "node-7:9092/metrics",
        "http://node-7:9092",
        "file:///etc/passwd",
        "user@node-7:9092",
        "user:secret@node-7:9092",
        "node-7:9092?x=1",
        "node-7:9092#x",
        "node 7:9092",
        "node-7:9092\n",
        "node-7:\u0661",
        "no\u00efve:9092",
        "-node:9092",
        "node..cluster:9092",
        ".:9092",
        "2001:db8::7:9092",
        "[node-7]:9092",
        "[10.0.0.7:9092",
        "2130706433:9092",
        "0x7f000001:9092",
        "0177.0.0.1:9092",
        "127.1:9092",
        "1.2.3.4.5:9092",
        "0.0.0.0:9092",
        "[::]:9092",
        "169.254.169.254:80",
        "100.100.100.200:80",
        "[64:ff9b::a9fe:a9fe]:80",
        "[::ffff:169.254.169.254]:80",
        "[fe80::1]:80",
        "[fe80::1%eth0]:80",
        "224.0.0.1:80",
        "a" * 64 + ":80",
        ".".join(["abcdefgh"] * 40) + ":80",
    ],
)
def test_what_is_no_host_and_port_is_refused(text: str):
    with pytest.raises(BadRequestError) as raised:
        parse_target(text)
    assert raised.value.hint


@given(st.text(max_size=40))
def test_whatever_is_taken_is_a_host_and_a_port(text: str):
    try:
        parsed = parse_target(text)
    except BadRequestError:
        return
    assert parse_target(parsed) == parsed
    assert not set(parsed) & set("/@?# \\")
    assert 1 <= int(parsed.rpartition(":")[2]) <= 65_535


@pytest.mark.parametrize(
    ("target", "host"), [("10.0.0.7:1", "10.0.0.7"), ("[::1]:1", "::1"), ("node:1", "node")]
)
def test_the_host_of_a_target(target: str, host: str):
    assert host_of(target) == host


def test_loopback():
    loopback = ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost", "a.localhost")
    assert all(map(is_loopback, loopback))
    assert not any(map(is_loopback, ("10.0.0.7", "node-7", "localhost.example", "")))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("node-7", "NODE-7", True),
        ("node-7", "node-7.cluster.local", True),
        ("node-7.cluster.local.", "node-7.cluster.local", True),
        ("node-7.a", "node-7.b", False),
        ("node-7", "node-70", False),
        ("10.0.0.7", "10.0.0.7", True),
        ("10", "10.0.0.7", False),
        ("", "", False),
    ],
)
def test_names_of_one_host(one: str, other: str, same: bool):
    assert is_same_host(one, other) is same
    assert is_same_host(other, one) is same


def test_addresses_have_one_spelling():
    assert normalise_address("::ffff:10.0.0.7") == "10.0.0.7"
    assert normalise_address("[2001:DB8::0:7]") == "2001:db8::7"
    assert normalise_address("testclient") == normalise_address("") == normalise_address(None) == ""
