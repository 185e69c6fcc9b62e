"""Pictures of evidence, drawn from what is stored."""

from dataclasses import replace

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.service.alert_pictures import EvidencePainter
from support.alert_events import make_event
from support.server_runs import RunScript
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
