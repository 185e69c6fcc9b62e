import json

import pytest

from longpole_agent.server_api import ServerUnreachableError
from longpole_agent.targets import Target, TargetList, parse_static_targets, read_targets


class Server:
    """Answers as the server does, or not at all."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.registered: list[bytes] = []
        self.targets: list[dict[str, object]] = []
        self.is_up = True
        self.status = 200

    def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        if not self.is_up:
            raise ServerUnreachableError("Connection refused")
        self.asked.append((method, path))
        if method == "POST":
            if self.status < 400:
                self.registered.append(body)
            return self.status, b"{}"
        return 200, json.dumps({"scrape_targets": self.targets, "next": None}).encode()


def row(target: str, job: str = "vllm", seen_ns: int = 1, **labels: str) -> dict[str, object]:
    return {"job_name": job, "target": target, "labels": labels, "host": None, "seen_ns": seen_ns}


def make(server: Server, *static: Target) -> TargetList:
    return TargetList(static, server, "node 1", lambda: ["10.0.0.7", "fd00::7"])


def test_the_server_is_asked_with_name_and_addresses() -> None:
    server = Server()
    server.targets = [row("10.0.0.7:80", replica="3")]
    targets = make(server, Target("sglang", "127.0.0.1:30000"))
    assert [each.job for each in targets.targets] == ["sglang"]
    targets.refresh()
    assert server.asked == [
        ("GET", "/api/v1/scrape-targets?host=node+1&address=10.0.0.7&address=fd00%3A%3A7")
    ]
    assert list(targets.targets) == [
        Target("sglang", "127.0.0.1:30000"),
        Target("vllm", "10.0.0.7:80", (("replica", "3"),), 1),
    ]
    assert targets.targets[1].label("replica") == "3"
    assert targets.targets[1].port == 80


def test_without_an_answer_the_list_stays() -> None:
    server = Server()
    server.targets = [row("10.0.0.7:80")]
    targets = make(server)
    targets.refresh()
    server.is_up = False
    targets.refresh()
    assert len(targets.targets) == 1
    assert targets.trouble == "Connection refused"


def test_a_registration_reaches_the_server_later_when_it_is_away() -> None:
    server = Server()
    targets = make(server)
    assert targets.register(b"1") == (200, b"{}")
    server.is_up = False
    assert targets.register(b"2")[0] == 202
    assert targets.num_pending == 1
    targets.refresh()
    assert targets.num_pending == 1
    server.is_up = True
    targets.refresh()
    assert server.registered == [b"1", b"2"]
    assert targets.num_pending == 0


def test_a_refusal_is_handed_on_and_not_tried_again() -> None:
    server = Server()
    server.status = 400
    targets = make(server)
    assert targets.register(b"1")[0] == 400
    assert targets.num_pending == 0


def test_those_registered_last_are_scraped_when_there_are_too_many() -> None:
    server = Server()
    server.targets = [row(f"10.0.0.7:{port}", seen_ns=port) for port in range(1, 400)]
    targets = make(server, Target("engine", "127.0.0.1:1"))
    targets.refresh()
    assert len(targets.targets) == 256
    assert targets.targets[0].address == "127.0.0.1:1"
    assert min(each.seen_ns for each in targets.targets[1:]) == 399 - 254


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"scrape_targets": [{}]}'])
def test_an_answer_that_is_no_list_is_an_error(answer: bytes) -> None:
    with pytest.raises(ValueError):
        read_targets(answer)


def test_static_targets() -> None:
    assert parse_static_targets("") == ()
    assert parse_static_targets("vllm=127.0.0.1:8000, h:1  [::1]:2") == (
        Target("vllm", "127.0.0.1:8000"),
        Target("engine", "h:1"),
        Target("engine", "[::1]:2"),
    )
    assert parse_static_targets("vllm=h:1@proj/a=b h:2@x") == (
        Target("vllm", "h:1", (("run", "proj/a=b"),)),
        Target("engine", "h:2", (("run", "x"),)),
    )
    for wrong in ("x", "a:b", "vllm=h", "http://h:1", "h:70000", ":1"):
        with pytest.raises(ValueError):
            parse_static_targets(wrong)


def test_found_pages_are_added_unless_they_are_known_under_another_address() -> None:
    found = [Target("discovered", "127.0.0.1:8000"), Target("discovered", "127.0.0.1:8001")]
    server = Server()
    server.targets = [row("10.0.0.7:8000")]
    listing = TargetList((), server, "node0", lambda: ["10.0.0.7"], find=lambda: found)
    listing.refresh()
    assert [target.address for target in listing.targets] == ["127.0.0.1:8001", "10.0.0.7:8000"]
    server.is_up = False
    found.append(Target("discovered", "127.0.0.1:8002"))
    listing.refresh()
    assert [target.port for target in listing.targets] == [8001, 8002, 8000]
    assert Target("x", "[fd00::1]:80").host == "fd00::1"
