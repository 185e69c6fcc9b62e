"""A small request that names a large resource once and very many spans under it."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from longpole_server.ingest.normalize import Normalizer
from longpole_server.model.records import Records
from support import otlp_builders as otlp

SPANS = 100_000
MAX_BYTES = 600 << 20


def test_a_large_resource_is_not_repeated_without_a_bound() -> None:
    request = ExportTraceServiceRequest()
    values = {f"note.{number}": "x" * 4000 for number in range(100)}
    batch = request.resource_spans.add(resource=otlp.process("run"))
    batch.resource.attributes.extend(otlp.attributes({**values, "service.name": "s" * 4000}))
    spans = batch.scope_spans.add()
    spans.scope.name = "scope" * 1000
    start_ns = otlp.at(0)
    for number in range(SPANS):
        spans.spans.add(
            trace_id=number.to_bytes(16, "big"),
            span_id=number.to_bytes(8, "big"),
            start_time_unix_nano=start_ns,
            end_time_unix_nano=start_ns + 1,
        )
    body = request.SerializeToString()
    assert len(body) < 8 << 20
    records = Records()
    assert Normalizer([]).normalize_many("traces", [(body, otlp.at(1))], records)
    (block,) = (each for each in records.blocks if each.kind == "raw_spans")
    assert block.num_rows == SPANS
    assert block.rows.nbytes < MAX_BYTES
    assert dict(block.rows["ResourceAttributes"][0].as_py())["rl.run.id"] == "run"
