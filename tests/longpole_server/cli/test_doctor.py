from typing import Any

import pytest

from longpole_server.cli.doctor import Check, examine, render
from longpole_server.errors import NotFoundError, ServerError

NOW_NS = 1_800_000_000 * 10**9
GIB = 1 << 30


class FakeServer:
    """Answers from a table; what is not in it fails."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers

    def get(self, path: str) -> dict[str, Any]:
        answer = self._answers.get(path, ServerError(f"nothing at {path}"))
        if isinstance(answer, Exception):
            raise answer
        return answer


def look(tmp_path: Any, **changes: Any) -> dict[str, Check]:
    answers: dict[str, Any] = {
        "/health": {"version": "0"},
        "/ready": {"parts": {"store": True}},
        "/storage": {
            "place": "here",
            "free_bytes": 100 * GIB,
            "bytes_on_disk": 10 * GIB,
            "tables": [{"table": "gpu_samples", "bytes_on_disk": 10 * GIB}],
        },
        "/nodes": {"nodes": []},
        "/runs": {"runs": [{"run_id": "a", "state": "live"}, {"run_id": "b", "state": "finished"}]},
        **{f"/{name}": answer for name, answer in changes.items()},
    }
    server: Any = FakeServer(answers)
    checks = examine(server, "http://server", tmp_path, lambda: NOW_NS)
    return {check.subject: check for check in checks}


def node(host: str, age_s: float, run: str = "a") -> dict[str, Any]:
    return {"host": host, "seen_ns": NOW_NS - round(age_s * 1e9), "runs": [run]}


def test_what_is_well(tmp_path: Any):
    found = look(tmp_path, nodes={"nodes": [node("node-0", 1.0)]})
    assert found["storage"].verdict == found["agent"].verdict == found["ready"].verdict == "ok"
    assert found["agent"].text == "node-0 was heard 1 s ago"
    assert found["server"].verdict == "note"
    assert "10.0 GiB in here (gpu_samples 10.0 GiB)" in found["storage"].text


@pytest.mark.parametrize(
    ("changes", "subject", "advice"),
    [
        ({"nodes": {"nodes": [node("node-1", 600.0)]}}, "agent", "look at the agent on node-1"),
        ({"nodes": {"nodes": [node("node-1", -60.0)]}}, "clock", "synchronise"),
        ({"ready": ServerError("the store is away", "wait")}, "ready", "wait"),
        ({"storage": ServerError("this server wants its token")}, "storage", "LONGPOLE_TOKEN"),
        ({"health": ServerError("nobody answers")}, "server", "longpole up"),
        (
            {"storage": {"place": "x", "free_bytes": GIB, "bytes_on_disk": 1, "tables": []}},
            "storage",
            "--retention",
        ),
    ],
)
def test_what_is_bad_comes_with_what_to_do(
    tmp_path: Any, changes: dict[str, Any], subject: str, advice: str
):
    check = look(tmp_path, **changes)[subject]
    assert check.verdict == "bad"
    assert advice in check.advice
    assert "\n" in render(check)


def test_an_older_server_does_not_say_everything(tmp_path: Any):
    assert look(tmp_path, storage=NotFoundError("no such path"))["storage"].verdict == "note"


def test_nodes_that_nobody_misses_are_no_trouble(tmp_path: Any):
    nodes = [node(f"demo-{number}", 3600.0 + number, "b") for number in range(6)]
    found = look(tmp_path, nodes={"nodes": [*nodes, node("node-0", 1.0)]})
    assert found["at rest"].verdict == "note"
    assert found["at rest"].text.startswith("demo-0, demo-1, demo-2, demo-3, demo-4 ...: nothing")
    assert found["agent"].text == "node-0 was heard 1 s ago"
    assert not any(check.verdict == "bad" for check in found.values())


def test_the_largest_tables_are_named(tmp_path: Any):
    tables = [{"table": f"t{number}", "bytes_on_disk": 1 << 20} for number in range(8)]
    storage = {"place": "x", "free_bytes": None, "bytes_on_disk": 8 << 20, "tables": tables}
    text = look(tmp_path, storage=storage)["storage"].text
    assert text == "8.0 MiB in x (" + ", ".join(f"t{n} 1.0 MiB" for n in range(5)) + ", 3 more)"


def test_a_clock_from_before_this_program_is_wrong(tmp_path: Any):
    server: Any = FakeServer({"/health": {"version": "0"}})
    checks = examine(server, "http://server", tmp_path, lambda: 86_400 * 10**9)
    (clock,) = (check for check in checks if check.subject == "clock")
    assert (clock.verdict, "1970-01-02" in clock.text) == ("bad", True)
