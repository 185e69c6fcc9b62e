"""The shape that chrome://tracing and Perfetto read, by the rules of the Trace Event Format."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from longpole_server.errors import NotFoundError
from longpole_server.service.chrome_trace import trace_step
from support.server_runs import RunScript, gpu_samples
from support.server_service import ServiceBench, opened_bench

RUN_ID = "traced"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServiceBench]:
    directory: Path = tmp_path_factory.mktemp("store")
    with opened_bench(directory) as bench:
        run = RunScript(RUN_ID, gpu_ids=("GPU-a",))
        bench.clock.seconds = 11.0
        bench.write(run.start(gpu_count=1), gpu_samples("GPU-a", 0, 0, 11, 0.9))
        bench.joiner.join()
        bench.write(
            run.whole_step(1, 0.0),
            run.sample("a", 0.0, 3.0, 1),
            run.sample("b", 1.0, 2.0, 1),
            run.sample("c", 4.0, 5.0, 1),
        )
        yield bench


@pytest.fixture(scope="module")
def trace(bench: ServiceBench) -> dict[str, Any]:
    return trace_step(bench.service, RUN_ID, 1)


def of_kind(trace: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == kind]


def test_every_event_has_what_its_kind_needs(trace: dict[str, Any]):
    assert trace["displayTimeUnit"] in {"ms", "ns"}
    named = {event["pid"] for event in of_kind(trace, "M") if event["name"] == "process_name"}
    for event in trace["traceEvents"]:
        assert event["ph"] in {"X", "C", "M"}
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["pid"] in named
        if event["ph"] == "X":
            assert event["dur"] >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, float) for value in event["args"].values())
        if event["ph"] != "M":
            assert isinstance(event["ts"], float)


def test_stages_lie_in_the_step(trace: dict[str, Any]):
    windows = [event for event in of_kind(trace, "X") if event["pid"] == 1]
    step, *stages = windows
    assert step["name"] == "step 1"
    assert step["dur"] == pytest.approx(10e6)
    assert {"gen", "update_actor"} <= {stage["name"] for stage in stages}
    for stage in stages:
        assert step["ts"] <= stage["ts"]
        assert stage["ts"] + stage["dur"] <= step["ts"] + step["dur"] + 1.0


def test_samples_of_a_row_do_not_overlap(trace: dict[str, Any]):
    samples = {event["name"]: event for event in of_kind(trace, "X") if event["pid"] == 2}
    assert samples.keys() == {"a", "b", "c"}
    rows = {name: event["tid"] for name, event in samples.items()}
    assert rows["a"] != rows["b"]
    assert rows["c"] in {rows["a"], rows["b"]}


def test_gpus_are_counters(trace: dict[str, Any]):
    names = {event["name"] for event in of_kind(trace, "C")}
    assert any(name.endswith("utilization_ratio") for name in names)
    values = [
        event["args"]["utilization_ratio"]
        for event in of_kind(trace, "C")
        if "utilization_ratio" in event["args"]
    ]
    assert values == pytest.approx([0.9] * len(values), abs=1e-3)


def test_a_step_that_is_not_there(bench: ServiceBench):
    with pytest.raises(NotFoundError):
        trace_step(bench.service, RUN_ID, 99)
