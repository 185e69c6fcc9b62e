from typing import Any

import pytest

from longpole_server.cli.agent_checks import judge_health
from longpole_server.cli.checks import Check
from longpole_server.cli.doctor import examine, render
from longpole_server.cli.driver_checks import examine_driver
from longpole_server.errors import ForbiddenError, NotFoundError, ServerError

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

    def get_metrics(self) -> dict[str, float]:
        return self.get("/metrics")


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
        "/metrics": {"longpole_journal_max_bytes": float(2 * GIB)},
        "/alerts?state=firing": {"alerts": []},
        "/runs": {"runs": [{"run_id": "a", "state": "live"}, {"run_id": "b", "state": "finished"}]},
        **{f"/{name}": answer for name, answer in changes.items() if name != "alerts"},
    }
    if "alerts" in changes:
        answers["/alerts?state=firing"] = changes["alerts"]
    server: Any = FakeServer(answers)
    checks = examine(server, "http://server", tmp_path, lambda: NOW_NS)
    return {check.subject: check for check in checks}


def node(host: str, age_s: float, run: str = "a") -> dict[str, Any]:
    seen_ns = NOW_NS - round(age_s * 1e9)
    return {"host": host, "seen_ns": seen_ns, "runs": [run], "num_gpus": 8}


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
        ({"metrics": {"longpole_ingest_pending_requests": 3e4}}, "lag", "LongpoleIngestLag"),
        (
            {
                "metrics": {
                    "longpole_journal_bytes": 1.5 * GIB,
                    "longpole_journal_max_bytes": 2.0 * GIB,
                }
            },
            "lag",
            "the server's CPU",
        ),
        (
            {
                "alerts": {
                    "alerts": [
                        {"rule": "spool.filling", "summary": "node-3", "first_look": "its network"},
                        {"rule": "run.hang", "summary": "a", "first_look": "b"},
                    ]
                }
            },
            "alert",
            "its network",
        ),
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


def test_how_far_the_server_is_behind(tmp_path: Any):
    found = look(tmp_path, metrics={"longpole_ingest_lost_requests_total": 2.0})
    assert found["lag"].verdict == "ok"
    assert found["lag"].text.startswith("0 requests wait for the store, 0 steps")
    assert (found["ingest"].verdict, found["ingest"].advice) == (
        "note", "LongpoleIngestLost in the runbook",
    )  # fmt: skip
    assert look(tmp_path, metrics={"longpole_steps_waiting": 999.0})["lag"].verdict == "note"


def test_nodes_are_not_called_silent_because_the_server_is_behind(tmp_path: Any):
    nodes = {"nodes": [node("node-0", 100.0), node("node-1", 110.0), node("node-2", 900.0)]}
    behind = {"longpole_ingest_lag_seconds": 95.0, "longpole_ingest_pending_requests": 40.0}
    found = look(tmp_path, nodes=nodes, metrics=behind)
    assert (found["lag"].verdict, found["lag"].text[:14]) == ("bad", "2 min behind: ")
    assert found["agents"].verdict == "note"
    assert found["agents"].text.startswith("node-0, node-1: whether they are silent is not known")
    # It was silent before.
    assert (found["agent"].verdict, found["agent"].text[:6]) == ("bad", "node-2")
    kept_up = look(tmp_path, nodes={"nodes": [node("node-0", 100.0)]})
    assert kept_up["agent"].verdict == "bad"


def test_a_server_that_only_shows_is_asked_for_the_one_that_writes(tmp_path: Any):
    nodes = {"nodes": [node("node-0", 100.0)]}
    health = {"version": "0", "role": "web"}

    def look_at(**figures: float) -> dict[str, Check]:
        metrics = {f"longpole_writer_{name}_seconds": value for name, value in figures.items()}
        return look(tmp_path, health=health, nodes=nodes, metrics=metrics)

    well = look_at(away=0.0, lag=0.0)
    assert "role web: it shows what another server writes" in well["server"].text
    assert well["writer"].verdict == "ok"
    # It has no journal, of which nothing can be said.
    assert "lag" not in well
    assert well["agent"].verdict == "bad"
    away = look_at(away=90.0)
    assert (away["writer"].verdict, "LongpoleWriterAway" in away["writer"].advice) == ("bad", True)
    assert (away["agents"].verdict, "agent" in away) == ("note", False)
    assert look_at(lag=100.0)["writer"].text.endswith("2 min behind")


def test_a_server_that_takes_data_alone_says_so(tmp_path: Any):
    found = look(tmp_path, health={"version": "0", "role": "ingest"})
    assert found["server"].text.endswith("role ingest: it takes data and has no pages")
    assert found["lag"].verdict == "ok"


def test_many_nodes_are_one_line_and_those_without_gpus_are_named(tmp_path: Any):
    nodes = [node(f"node-{number}", number / 100) for number in range(128)]
    found = look(tmp_path, nodes={"nodes": [*nodes, {**node("head", 0.5), "num_gpus": 0}]})
    assert found["agents"].text == "129 nodes were heard in the last 1 s; 1024 GPUs"
    assert "agent" not in found
    assert (found["gpus"].verdict, found["gpus"].text) == (
        "note", "head: no GPU is reported from there",
    )  # fmt: skip


def test_what_an_agent_says_of_itself():
    health: dict[str, Any] = {
        "host": "node-1", "server": "http://s:8470", "trouble": None,
        "spool": {"records": 3, "dropped": 0}, "sources": [{"name": "host", "error": None}],
    }  # fmt: skip
    (well,) = judge_health(health)
    assert (well.verdict, well.text) == (
        "ok", "node-1 sends to http://s:8470, 3 requests wait in its spool",
    )  # fmt: skip
    health |= {
        "trouble": "library and driver are of different versions",
        "spool": {"records": 9, "dropped": 4},
        "sources": [{"name": "pod_resources", "error": "permission denied"}],
    }
    trouble, source, dropped = judge_health(health)
    assert (trouble.verdict, source.verdict, dropped.verdict) == ("bad", "bad", "note")
    assert "different versions" in trouble.text
    assert source.text == "pod_resources: permission denied"


class ErrorString:
    restype: Any = None

    def __call__(self, status: int) -> bytes:
        return b"Driver/library version mismatch"


class Library:
    """Answers as `libnvidia-ml` would."""

    def __init__(self, status: int = 0, count: int = 0) -> None:
        self._status = status
        self._count = count
        self.is_open = False
        self.nvmlInit_v2, self.nvmlShutdown = self.begin, self.end
        self.nvmlDeviceGetCount_v2, self.nvmlSystemGetDriverVersion = self.count, self.version
        self.nvmlErrorString = ErrorString()

    def begin(self) -> int:
        self.is_open = self._status == 0
        return self._status

    def end(self) -> int:
        self.is_open = False
        return 0

    def count(self, place: Any) -> int:
        place._obj.value = self._count
        return 0

    def version(self, text: Any, size: int) -> int:
        text.value = b"580.82"
        return 0


def test_a_driver_that_answers_and_one_that_does_not():
    def look_at(library: Any) -> Check:
        return examine_driver(lambda _: library)

    well = Library(count=8)
    assert look_at(well) == Check("ok", "nvml", "8 GPUs, driver 580.82")
    assert not well.is_open
    assert look_at(Library(count=0)).verdict == "bad"
    mismatch = look_at(Library(status=18))
    assert (mismatch.verdict, "version mismatch" in mismatch.text) == ("bad", True)
    assert mismatch.advice.startswith("library and kernel module")

    def load(_: str) -> Any:
        raise OSError("no such file")

    assert examine_driver(load).verdict == "note"


def test_on_a_node_whose_token_may_only_send_nothing_is_wrong(tmp_path: Any):
    refused = ForbiddenError("token gpu-nodes (ingest) may not do this")
    found = look(tmp_path, storage=refused, nodes=refused, alerts=refused)
    assert [found[each].verdict for each in ("storage", "agents", "alerts")] == ["note"] * 3
    assert "--role viewer" in found["storage"].advice


def test_a_port_of_five_digits_does_not_run_into_what_is_said_of_it():
    line = render(Check("ok", "port 14318", "somebody listens"))
    assert line == "ok   port 14318 somebody listens"
