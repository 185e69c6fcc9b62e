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
        answer = self._answers[path]
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
        "/gpus": {"gpus": []},
        **{f"/{name}": answer for name, answer in changes.items()},
    }
    server: Any = FakeServer(answers)
    checks = examine(server, "http://server", tmp_path, lambda: NOW_NS)
    return {check.subject: check for check in checks}


def gpu(host: str, age_s: float) -> dict[str, Any]:
    return {"host": host, "ts_ns": NOW_NS - round(age_s * 1e9)}


def test_what_is_well(tmp_path: Any):
    found = look(tmp_path, gpus={"gpus": [gpu("node-0", 1.0), gpu("node-0", 50.0)]})
    assert found["storage"].verdict == found["agent"].verdict == found["ready"].verdict == "ok"
    assert found["agent"].text == "node-0 was heard 1 s ago"
    assert found["server"].verdict == "note"
    assert "10.0 GiB in here (gpu_samples 10.0 GiB)" in found["storage"].text


@pytest.mark.parametrize(
    ("changes", "subject", "advice"),
    [
        ({"gpus": {"gpus": [gpu("node-1", 600.0)]}}, "agent", "look at the agent on node-1"),
        ({"gpus": {"gpus": [gpu("node-1", -60.0)]}}, "clock", "synchronise"),
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
