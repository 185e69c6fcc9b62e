"""Pictures of evidence, drawn from what is stored."""

from dataclasses import replace

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.service.alert_pictures import EvidencePainter
from support.alert_events import make_event
from support.alert_histories import at
from support.server_runs import BEGIN_NS, RunScript, S, gpu_samples
from support.server_service import ServiceBench


def test_the_figure_of_a_rule_over_the_steps_of_its_run(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start())
    for step in range(1, 7):
        reward = 0.5 if step < 6 else 0.1
        bench.write(
            run.whole_step(step, 10.0 * (step - 1)),
            run.scalars(step, 10.0 * step, {"critic/score/mean": reward}),
        )
    painter = EvidencePainter(bench.reader, bench.alert_store.reader, lambda: BUILT_IN_RULES)
    event = make_event(
        run_id=run_id, rule="reward.collapse", step=6, started_step=6, threshold=0.35, unit="1"
    )
    picture = painter.paint(event)
    assert picture is not None
    assert picture.png.startswith(b"\x89PNG")
    assert picture.alt_text.endswith("0.5 in step 1, 0.1 in step 6, limit 0.35")
    for other in (
        replace(event, rule="no.rule"),
        replace(event, step=None),
        replace(event, run_id=""),
        replace(event, run_id="nobody"),
        replace(event, rule="gpu.lost"),
    ):
        assert painter.paint(other) is None


def test_a_rule_of_time_over_the_minutes_before(bench: ServiceBench, run_id: str):
    past = [(at(10.0 * index), 10.0 * index) for index in range(20)]
    painter = EvidencePainter(
        bench.reader, bench.alert_store.reader, lambda: BUILT_IN_RULES, lambda _: past
    )
    event = make_event(
        run_id=run_id,
        rule="run.stalled",
        started_ns=at(130),
        ts_ns=at(190),
        step=None,
        started_step=None,
        value=190.0,
        threshold=120.0,
        unit="s",
    )
    picture = painter.paint(event)
    assert picture is not None
    assert picture.alt_text == "Run stalled: 0 s at -3 min, 3 min 10 s at 0 min, limit 2 min"
    assert painter.paint(replace(event, run_id="", rule="disk.filling")) is not None


def test_a_gpu_over_the_minutes_before_it_was_lost(bench: ServiceBench, run_id: str):
    name = f"{run_id}-0"
    bench.write(gpu_samples(name, 0, 0, 240, 0.9))
    painter = EvidencePainter(bench.reader, bench.alert_store.reader, lambda: BUILT_IN_RULES)
    event = make_event(
        run_id=run_id,
        rule="gpu.lost",
        entity_kind="gpu",
        entity_id=name,
        started_ns=server_at(420),
        ts_ns=server_at(480),
        step=None,
        value=180.0,
        threshold=60.0,
        unit="s",
    )
    picture = painter.paint(event)
    assert picture is not None
    assert "GPU lost: samples a minute" in picture.alt_text
    assert ", 0 samples at " in picture.alt_text


def server_at(seconds: float) -> int:
    return BEGIN_NS + round(seconds * S)
