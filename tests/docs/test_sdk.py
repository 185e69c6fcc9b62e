"""What the pages say of the SDK and of OpenTelemetry alone: complete, and it runs as it stands."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import longpole
from support.sdk_receiver import FakeReceiver

DOCS = Path(__file__).parents[2] / "docs"
SDK = (DOCS / "sdk.md").read_text("utf-8")
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FUNCTIONS = [name for name in longpole.__all__ if inspect.isfunction(getattr(longpole, name))]


def run_example(page: str, receiver: FakeReceiver) -> None:
    (text,) = _PYTHON.findall((DOCS / page).read_text("utf-8"))
    text = text.replace("http://127.0.0.1:4318", receiver.endpoint)
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith("LONGPOLE_")
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        env={**environ, "LONGPOLE_ENDPOINT": receiver.endpoint},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_call_and_argument_has_its_line(name: str) -> None:
    _, _, section = SDK.partition(f"### `longpole.{name}(")
    assert section, f"docs/sdk.md does not say longpole.{name}"
    section = section.partition("\n### ")[0]
    for parameter in inspect.signature(getattr(longpole, name)).parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD:
            assert re.search(rf"\b{parameter.name}\b", section), parameter.name


def test_the_loop_of_the_sdk_runs_as_it_stands() -> None:
    with FakeReceiver() as receiver:
        run_example("sdk.md", receiver)
        assert len(receiver.spans("rl.trajectory")) == 16
        assert len(receiver.spans("rl.sync.transfer")) == 2
        assert {point.name for point in receiver.points()} >= {"critic/score/mean"}
        assert len(receiver.events("rl.run.end")) == 1


def test_the_loop_of_opentelemetry_runs_as_it_stands() -> None:
    with FakeReceiver() as receiver:
        run_example("vocabulary.md", receiver)
        names = [
            span.name
            for request in receiver.requests
            for resource in ExportTraceServiceRequest.FromString(request.body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
    assert sorted(names) == sorted(["rl.loop", "gen", "update_actor"] * 2)
