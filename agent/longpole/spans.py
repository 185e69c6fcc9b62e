"""Spans of steps, stages and sync phases, through an OpenTelemetry provider of our own.

Ended spans go into a bounded buffer that the sender empties. The batch processor and exporter of
the SDK are not used: they restart a thread in every forked child, drop without counting, block
`force_flush` for as long as a receiver is away, and draw their back-off from the global `random`
state, which trainers seed.
"""

import os
from collections.abc import Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, Status, StatusCode, set_span_in_context

from longpole._version import __version__
from longpole.buffers import Buffer
from longpole.errors import InvalidSetting
from longpole.otlp import SCOPE_NAME, Encoded
from longpole.values import AttributeValue

_MAX_TEXT_LENGTH = 4096
# Given in full: what is missing would come from the trainer's `OTEL_SPAN_*` variables.
_LIMITS = SpanLimits(max_span_attributes=64, max_span_attribute_length=_MAX_TEXT_LENGTH)


class SystemIds(IdGenerator):
    """Ids from the system's random source: two trainers with one seed never share an id."""

    def generate_span_id(self) -> int:
        """Return 8 random bytes, never 0."""
        return int.from_bytes(os.urandom(8), "big") or self.generate_span_id()

    def generate_trace_id(self) -> int:
        """Return 16 random bytes, never 0."""
        return int.from_bytes(os.urandom(16), "big") or self.generate_trace_id()

    def is_trace_id_random(self) -> bool:
        """Whether all bits are random, as W3C Trace Context asks."""
        return True


class BufferingProcessor(SpanProcessor):
    """Puts ended spans into a buffer."""

    def __init__(self, buffer: Buffer[ReadableSpan]) -> None:
        self._buffer = buffer

    def on_end(self, span: ReadableSpan) -> None:
        """Keep the span for the sender."""
        self._buffer.append(span)


class OpenTelemetryTracing:
    """Starts and ends spans, independent of the trainer's own OpenTelemetry set-up.

    Raises:
        InvalidSetting: `OTEL_SDK_DISABLED` turns off every provider of this process.
    """

    def __init__(
        self, resource: Mapping[str, AttributeValue], buffer: Buffer[ReadableSpan]
    ) -> None:
        provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource(resource),
            shutdown_on_exit=False,
            id_generator=SystemIds(),
            span_limits=_LIMITS,
        )
        provider.add_span_processor(BufferingProcessor(buffer))
        self._tracer = provider.get_tracer(SCOPE_NAME, __version__)
        if not self._tracer.start_span("probe", Context()).is_recording():
            raise InvalidSetting("OTEL_SDK_DISABLED=true turns Longpole off too; unset it")

    def start(
        self,
        name: str,
        parent: Span | None,
        attributes: Mapping[str, AttributeValue],
        start_ns: int,
    ) -> Span:
        """Start a span under `parent`, or as a root of its own; the current context is unused."""
        context = Context() if parent is None else set_span_in_context(parent, Context())
        return self._tracer.start_span(
            name, context=context, attributes=attributes, start_time=start_ns
        )

    def end(self, span: Span, end_ns: int, error: str | None) -> None:
        """End a span; `error` marks it as failed."""
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(end_ns)


def encode_windows(spans: Sequence[ReadableSpan]) -> Encoded:
    """Encode ended spans as one OTLP trace request."""
    return Encoded(encode_spans(spans).SerializeToString(), len(spans), 0)
