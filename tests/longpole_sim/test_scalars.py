import pytest

from longpole.conventions.metrics import read_metric
from longpole_sim import Cluster, Run, StepPlan, make_run, plan_run
from longpole_sim.scalars import planned_seconds, step_scalars

CLUSTER = Cluster(nodes=1, gpus_per_node=4)


def first_step(scenario: str) -> tuple[Run, StepPlan, dict[str, float]]:
    run = make_run(scenario, 2, cluster=CLUSTER)
    plan = next(plan_run(run))
    return run, plan, step_scalars(run, plan)


def test_gpus_follow_from_throughput_and_ranks_from_sequence_lengths() -> None:
    _, _, scalars = first_step("long_tail")
    tokens = scalars["perf/total_num_tokens"]
    gpus = tokens / (scalars["perf/time_per_step"] * scalars["perf/throughput"])
    assert gpus == pytest.approx(4)
    assert tokens / scalars["global_seqlen/mean"] == pytest.approx(4)
    assert scalars["global_seqlen/balanced_max"] <= 1.05 * scalars["global_seqlen/mean"]
    assert scalars["global_seqlen/min"] <= scalars["global_seqlen/balanced_min"]


def test_stages_add_up_to_the_step() -> None:
    _, plan, scalars = first_step("critic")
    stages = [name for name in planned_seconds(plan) if name != "step"]
    covered = sum(scalars[f"timing_s/{name}"] for name in stages)
    assert 0.95 < covered / scalars["timing_s/step"] <= 1.0
    assert "timing_s/update_critic" in scalars
    assert "critic/vf_loss" in scalars


def test_measured_seconds_replace_planned_ones() -> None:
    run, plan, _ = first_step("long_tail")
    scalars = step_scalars(run, plan, {"gen": 100.0, "step": 200.0})
    assert scalars["timing_s/gen"] == 100.0
    assert scalars["perf/time_per_step"] == 200.0
    assert "timing_s/update_actor" not in scalars


def test_agent_loop_figures_are_those_of_the_trajectories() -> None:
    _, plan, scalars = first_step("tool_slow")
    assert scalars["timing_s/agent_loop/tool_calls/max"] == max(
        item.seconds("tool") for item in plan.trajectories
    )
    slowest = max(plan.trajectories, key=lambda item: item.duration_s)
    prefix = "timing_s/agent_loop/slowest"
    assert scalars[f"{prefix}/response_length"] == slowest.output_tokens
    assert scalars[f"{prefix}/tool_calls"] > scalars[f"{prefix}/generate_sequences"]


def test_truncation_is_reported() -> None:
    _, _, scalars = first_step("truncation")
    assert scalars["response_length/clip_ratio"] >= 0.25
    assert scalars["response_length/max"] == 512


def test_group_advantages_are_centred() -> None:
    for scenario in ("long_tail", "critic"):
        _, _, scalars = first_step(scenario)
        assert scalars["critic/advantages/mean"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("metric", "low", "high"),
    [
        ("mfu_actor", 0.35, 0.5),
        ("clip_fraction", 0.05, 0.20),
        ("reward_mean", 0.1, 0.9),
        ("entropy", 0.1, 2.0),
        ("truncated_ratio", 0.0, 0.05),
    ],
)
def test_health_metrics_of_the_default_are_healthy(metric: str, low: float, high: float) -> None:
    _, _, scalars = first_step("long_tail")
    value = read_metric(metric, scalars)
    assert value is not None
    assert low <= value <= high


def test_sequence_kl_is_healthy() -> None:
    _, _, scalars = first_step("long_tail")
    assert 1 <= scalars["actor/kl_loss"] * scalars["response_length/mean"] <= 10


def test_validation_accuracy_comes_with_the_step_it_follows() -> None:
    run = make_run("long_tail", 2, cluster=CLUSTER)
    for plan in plan_run(run, 10):
        scalars = step_scalars(run, plan)
        assert ("val-core/openai/gsm8k/acc/mean@1" in scalars) == (plan.step == 10)
        assert ("timing_s/testing" in scalars) == (plan.step == 10)
