import os
import random
import subprocess
import sys
from collections.abc import Callable

import pytest

from longpole.otlp import build_scope, encode_resource
from longpole.spans import WindowSpan, encode_windows, make_span_id, make_trace_id
from support.sdk_receiver import ReceivedSpan, decode_spans

TRACE, SPAN, PARENT = b"t" * 16, b"s" * 8, b"p" * 8


def encode(*spans: WindowSpan) -> tuple[list[ReceivedSpan], int]:
    encoded = encode_windows(spans, encode_resource({"rl.run.id": "r"}), build_scope())
    decoded = list(decode_spans(encoded.body))
    assert len(decoded) == encoded.num_records
    return decoded, encoded.num_skipped


@pytest.mark.parametrize("make", [make_trace_id, make_span_id])
def test_seeding_random_does_not_repeat_ids(make: Callable[[], bytes]) -> None:
    random.seed(0)
    first = make()
    random.seed(0)
    assert make() != first


def test_window_is_sent_with_its_parent_and_resource() -> None:
    attributes = {"rl.stage": "gen", "rl.loop.iteration": 3, "rl.sync.delta_ratio": 0.5}
    spans, num_skipped = encode(
        WindowSpan("rl.sample", TRACE, SPAN, PARENT, 5, 9, attributes, None),
        WindowSpan("rl.loop", TRACE, PARENT, b"", 5, 10, {}, "ValueError: boom"),
    )
    assert num_skipped == 0
    stage, step = spans
    assert stage == ReceivedSpan(
        name="rl.sample",
        attributes=attributes,
        resource={"rl.run.id": "r"},
        trace_id=TRACE.hex(),
        span_id=SPAN.hex(),
        parent=PARENT.hex(),
        start_ns=5,
        end_ns=9,
        is_error=False,
        message="",
    )
    assert (step.parent, step.is_error, step.message) == ("", True, "ValueError: boom")


def test_what_cannot_be_written_costs_itself_alone() -> None:
    fine = WindowSpan("rl.stage", TRACE, SPAN, b"", 1, 2, {"rl.stage": "x" * 10_000}, None)
    spans, num_skipped = encode(
        fine._replace(attributes={"rl.stage": "\ud800"}),
        fine,
        fine._replace(start_ns=-1),
    )
    assert num_skipped == 2
    assert [span.attributes for span in spans] == [{"rl.stage": "x" * 4096}]


def test_recording_goes_on_where_opentelemetry_is_turned_off() -> None:
    program = """
import longpole
longpole.init("r", endpoint="http://127.0.0.1:1")
with longpole.step(1):
    pass
assert longpole.stats().sent, longpole.stats()
"""
    environ = {**os.environ, "OTEL_SDK_DISABLED": "true", "OTEL_TRACES_SAMPLER": "always_off"}
    subprocess.run([sys.executable, "-c", program], env=environ, check=True, timeout=60)
