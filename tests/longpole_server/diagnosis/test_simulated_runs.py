"""Every scenario of the simulator gets the verdict that it says it deserves."""

import pytest

from longpole_server.analysis.ledger import assemble_step
from longpole_server.diagnosis import diagnose
from longpole_server.model.facts import RunFacts, StepFacts, StepInputs, TrajectoryFacts
from longpole_server.model.records import StageSpan
from longpole_sim import SCENARIOS, Cluster, make_run, plan_run
from longpole_sim.plan import StepPlan
from longpole_sim.scalars import step_scalars
from support.steps import NS, inputs

CLUSTER = Cluster(nodes=1, gpus_per_node=8)
# Long enough for a step without validation after each with one.
STEPS = 8


def at_ns(plan: StepPlan, seconds: float) -> int:
    return round((plan.start_s + seconds) * NS)


def make_spans(plan: StepPlan) -> list[StageSpan]:
    windows = [("step", 0.0, plan.duration_s)]
    windows += [(stage.stage, stage.start_s, stage.end_s) for stage in plan.stages + plan.between]
    return [
        StageSpan(
            "run",
            plan.attempt,
            plan.step,
            stage,
            stage,
            at_ns(plan, start_s),
            at_ns(plan, end_s),
            trace_id="trace",
            span_id=f"{plan.step}.{index}",
            parent_span_id=f"{plan.step}.0" if index else "",
            role="controller",
            is_loop=index == 0,
        )
        for index, (stage, start_s, end_s) in enumerate(windows)
    ]


def make_samples(plan: StepPlan) -> TrajectoryFacts:
    samples = plan.trajectories
    return TrajectoryFacts(
        start_ns=[at_ns(plan, sample.start_s) for sample in samples],
        end_ns=[at_ns(plan, sample.end_s) for sample in samples],
        durations_s=[sample.duration_s for sample in samples],
        generate_s=[sample.seconds("generate") for sample in samples],
        tool_s=[sample.seconds("tool") for sample in samples],
        score_s=[sample.seconds("score") for sample in samples],
        queue_s=[sample.seconds("queue") for sample in samples],
        output_tokens=[sample.output_tokens for sample in samples],
        preemptions=[sample.preemptions for sample in samples],
        statuses=[sample.status for sample in samples],
        replicas=[sample.replica for sample in samples],
    )


@pytest.mark.parametrize("name", SCENARIOS)
def test_spans_and_samples(name: str):
    simulated = make_run(name, 5, cluster=CLUSTER)
    run = RunFacts("run", "run", system="verl", mode="sync", gpu_count=8)
    steps: list[StepFacts] = []
    for plan in plan_run(simulated, STEPS):
        if plan.incident is not None:
            continue
        scalars = step_scalars(simulated, plan)
        given = StepInputs(run, plan.attempt, plan.step, make_spans(plan), scalars)
        steps.append(StepFacts(assemble_step(given), scalars, make_samples(plan)))
    diagnosis = diagnose(run, steps)
    assert diagnosis.verdict == SCENARIOS[name].verdict, diagnosis.summary
    assert not [note for note in diagnosis.data_quality if note.code.startswith("stage.")]


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - {"replica_slow"}))
def test_log_alone(name: str):
    simulated = make_run(name, 6, cluster=CLUSTER)
    run = RunFacts("run", "run", system="verl")
    steps = [
        StepFacts(assemble_step(inputs((), scalars, run=run, step=plan.step)), scalars)
        for plan in plan_run(simulated, STEPS)
        if plan.incident is None and (scalars := step_scalars(simulated, plan))
    ]
    diagnosis = diagnose(run, steps)
    assert diagnosis.verdict == SCENARIOS[name].verdict, diagnosis.summary
    assert diagnosis.throughput.gpus == 8
