from typing import Any

from longpole_server.model.records import RawSpan, Records
from longpole_server.store.traces import fit_resources
from support.store_opening import OpenedStore
from support.store_records import BASE_NS

# The Collector's ClickHouse exporter makes exactly these.
EXPORTER_COLUMNS = {
    "Timestamp": "DateTime64(9)",
    "TraceId": "String",
    "SpanId": "String",
    "ParentSpanId": "String",
    "TraceState": "String",
    "SpanName": "LowCardinality(String)",
    "SpanKind": "LowCardinality(String)",
    "ServiceName": "LowCardinality(String)",
    "ResourceAttributes": "Map(LowCardinality(String), String)",
    "ScopeName": "String",
    "ScopeVersion": "String",
    "SpanAttributes": "Map(LowCardinality(String), String)",
    "Duration": "UInt64",
    "StatusCode": "LowCardinality(String)",
    "StatusMessage": "String",
    "Events.Timestamp": "Array(DateTime64(9))",
    "Events.Name": "Array(LowCardinality(String))",
    "Events.Attributes": "Array(Map(LowCardinality(String), String))",
    "Links.TraceId": "Array(String)",
    "Links.SpanId": "Array(String)",
    "Links.TraceState": "Array(String)",
    "Links.Attributes": "Array(Map(LowCardinality(String), String))",
}


def test_columns_are_those_of_the_collectors_exporter(opened: OpenedStore) -> None:
    answer = opened.client.query(
        "SELECT name, type FROM system.columns "
        "WHERE database = 'longpole' AND table = 'otel_traces' ORDER BY position"
    )
    assert {row["name"]: row["type"] for row in answer.to_pylist()} == EXPORTER_COLUMNS


def test_a_span_comes_back_as_sent(opened: OpenedStore) -> None:
    span = RawSpan(
        ts_ns=BASE_NS + 1,
        duration_ns=17,
        trace_id="0af7651916cd43dd8448eb211c80319c",
        span_id="b7ad6b7169203331",
        parent_span_id="",
        trace_state="a=b",
        name="rl.sample",
        kind="Internal",
        service_name="trainer's",
        resource={"rl.run.id": "ü\"'\\"},
        scope_name="longpole",
        scope_version="1",
        attributes={"a": "", "b": "1"},
        status_code="Error",
        status_message="out of memory",
        events=((BASE_NS + 2, "first", {"k": "v"}), (BASE_NS + 3, "second", {})),
        links=(("t", "s", "", {"x": "'y'"}),),
    )
    opened.writer.write(Records(raw_spans=[span]), "a-span")
    row: dict[str, Any] = opened.client.query(
        "SELECT *, toUnixTimestamp64Nano(Timestamp) AS ns, "
        "arrayMap(each -> toUnixTimestamp64Nano(each), Events.Timestamp) AS event_ns "
        "FROM otel_traces WHERE ServiceName = 'trainer\\'s'"
    ).to_pylist()[0]
    assert row["ns"] == span.ts_ns
    assert row["Duration"] == 17
    assert row["TraceId"] == span.trace_id
    assert dict(row["ResourceAttributes"]) == span.resource
    assert dict(row["SpanAttributes"]) == span.attributes
    assert row["StatusCode"] == "Error"
    assert row["event_ns"] == [BASE_NS + 2, BASE_NS + 3]
    assert row["Events.Name"] == ["first", "second"]
    assert row["Events.Attributes"] == [[("k", "v")], []]
    assert row["Links.SpanId"] == ["s"]
    assert row["Links.Attributes"] == [[("x", "'y'")]]


def test_resources_fit_into_the_rows_of_their_spans() -> None:
    small = {"rl.run.id": "run", "service.name": "trainer"}
    large = {**small, **{f"note.{number}": "x" * 4000 for number in range(60)}, "short": "y"}
    assert fit_resources([small, large], [10, 10]) == [small, large]
    # A million spans under a resource of a quarter of a megabyte.
    fitted = fit_resources([small, large], [1, 1_000_000])
    assert fitted == [small, {**small, "short": "y"}]
