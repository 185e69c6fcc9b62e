"""Ends of steps and openings of windows are written at once; the rest may share a write."""

from longpole_server.ingest.pipeline import is_urgent
from support import otlp_builders as otlp


def test_the_end_of_a_step_is_urgent_and_so_is_every_event() -> None:
    body = otlp.traces((otlp.process(), [otlp.loop(3, 0.0, 1.0)]))
    assert is_urgent("traces", body)
    events = otlp.logs((otlp.process(), [("rl.stage.start", 0.0, {"rl.stage": "gen"})]))
    assert is_urgent("logs", events)


def test_stages_and_samples_of_a_step_can_wait() -> None:
    spans = [
        otlp.stage("gen", 3, 0.0, 1.0),
        otlp.span("rl.trajectory", 0.0, 1.0, {"rl.loop.iteration": 3}),
    ]
    assert not is_urgent("traces", otlp.traces((otlp.process(), spans)))
    assert not is_urgent("metrics", otlp.metrics((otlp.process(), [])))
