from longpole.events import Event, encode_events
from longpole.otlp import build_scope, encode_resource
from support.sdk_receiver import ReceivedEvent, decode_events


def test_event_has_its_name_twice_and_no_absent_attributes() -> None:
    attributes = {"rl.stage": "gen", "rl.loop.iteration": None, "rl.start_ns": 7}
    event = Event(5, "rl.stage.start", attributes, trace_id=b"t" * 16, span_id=b"s" * 8)
    encoded = encode_events([event], encode_resource({"rl.run.id": "r"}), build_scope())
    assert list(decode_events(encoded.body)) == [
        ReceivedEvent(
            name="rl.stage.start",
            attributes={"event.name": "rl.stage.start", "rl.stage": "gen", "rl.start_ns": 7},
            resource={"rl.run.id": "r"},
            time_ns=5,
            span_id=(b"s" * 8).hex(),
        )
    ]
    assert (encoded.num_records, encoded.num_skipped) == (1, 0)
