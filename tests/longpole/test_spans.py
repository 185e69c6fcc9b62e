import random
from collections.abc import Callable

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

from longpole.buffers import Buffer
from longpole.errors import InvalidSetting
from longpole.spans import OpenTelemetryTracing, SystemIds


@pytest.mark.parametrize("generate", [SystemIds().generate_trace_id, SystemIds().generate_span_id])
def test_seeding_random_does_not_repeat_ids(generate: Callable[[], int]) -> None:
    random.seed(0)
    first = generate()
    random.seed(0)
    assert generate() != first


def test_global_provider_and_current_span_of_the_trainer_are_left_alone() -> None:
    provider = trace.get_tracer_provider()
    buffer: Buffer[ReadableSpan] = Buffer(10)
    foreign = OpenTelemetryTracing({}, Buffer(10)).start("theirs", None, {}, 1)
    with trace.use_span(foreign, end_on_exit=False):
        tracing = OpenTelemetryTracing({"rl.run.id": "r"}, buffer)
        tracing.end(tracing.start("rl.loop", None, {}, 1), 2, None)
        assert trace.get_current_span() is foreign
    assert trace.get_tracer_provider() is provider
    (span,) = buffer.take(10)
    assert span.parent is None
    assert dict(span.resource.attributes) == {"rl.run.id": "r"}


def test_variables_meant_for_the_trainers_own_spans_do_not_apply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "1")
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "1")
    buffer: Buffer[ReadableSpan] = Buffer(10)
    tracing = OpenTelemetryTracing({}, buffer)
    tracing.end(tracing.start("rl.loop", None, {"rl.stage": "gen", "a": 1}, 1), 2, None)
    (span,) = buffer.take(10)
    assert dict(span.attributes or {}) == {"rl.stage": "gen", "a": 1}


def test_disabled_library_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with pytest.raises(InvalidSetting, match="OTEL_SDK_DISABLED"):
        OpenTelemetryTracing({}, Buffer(10))
