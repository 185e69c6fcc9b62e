"""Every scenario earns its verdict by the thresholds of the decision table, on any cluster."""

import statistics

import pytest

from longpole_sim import Cluster, Run, StepPlan, make_run, plan_run
from longpole_sim.models import H100_PEAK_FLOPS_PER_S
from longpole_sim.scenarios import SCENARIOS

FAMILIES = {
    "gen": "rollout",
    "reward": "reward",
    "old_log_prob": "logprob",
    "ref": "logprob",
    "values": "logprob",
    "update_actor": "update",
    "update_critic": "update",
    "update_weights": "sync",
    "adv": "overhead",
}


def dominant_family(plan: StepPlan) -> str | None:
    shares: dict[str, float] = {}
    for stage in plan.stages:
        family = FAMILIES.get(stage.stage)
        if family:
            shares[family] = shares.get(family, 0.0) + stage.duration_s / plan.duration_s
    largest, second = sorted(shares, key=lambda name: shares[name], reverse=True)[:2]
    if shares[largest] < 0.40 or shares[largest] - shares[second] < 0.05:
        return None
    return largest


def judge_update(run: Run, plan: StepPlan) -> str:
    actor, critic = plan.stage("update_actor"), plan.stage("update_critic")
    assert actor is not None
    if critic is not None and critic.duration_s > actor.duration_s:
        return "update.critic"
    work = run.reported_model.training_flops(plan.sequence_lengths)
    mfu = work / (actor.duration_s * run.cluster.gpu_count * H100_PEAK_FLOPS_PER_S)
    if mfu < 0.20:
        return "update.inefficient"
    return "update.compute" if mfu >= 0.35 else "update between the bands"


def judge_rollout(plan: StepPlan) -> str:
    gen = plan.stage("gen")
    assert gen is not None
    by_end = sorted(plan.trajectories, key=lambda item: item.end_s)
    last = by_end[-max(3, len(by_end) // 100) :]
    exposed_s = sum(item.duration_s for item in last)
    if sum(item.seconds("tool") for item in last) >= 0.5 * exposed_s:
        return "rollout.tool"
    if sum(item.seconds("score") for item in last) >= 0.5 * exposed_s:
        return "rollout.reward"
    if sum(item.status == "truncated" for item in by_end) >= 0.25 * len(by_end):
        return "rollout.truncation"
    paces: dict[str, list[float]] = {}
    for item in by_end:
        paces.setdefault(item.replica, []).append(item.seconds("generate") / item.output_tokens)
    means = [statistics.fmean(pace) for pace in paces.values()]
    if max(means) >= 1.3 * statistics.median(means):
        return "rollout.imbalance"
    slowest = max(by_end, key=lambda item: item.duration_s)
    time_ratio = slowest.duration_s / statistics.fmean(item.duration_s for item in by_end)
    token_ratio = slowest.output_tokens / statistics.fmean(item.output_tokens for item in by_end)
    if (
        slowest.duration_s >= 0.85 * gen.duration_s
        and time_ratio >= 1.5
        and 1 / 1.5 <= token_ratio / time_ratio <= 1.5
    ):
        return "rollout.long_tail"
    return "rollout.engine" if time_ratio < 1.3 else "rollout.unexplained"


def judge(run: Run, plan: StepPlan) -> str:
    family = dominant_family(plan)
    if family is None:
        return "balanced"
    if family == "update":
        return judge_update(run, plan)
    if family == "rollout":
        return judge_rollout(plan)
    return {"sync": "sync.weights"}.get(family, family)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
@pytest.mark.parametrize(
    "cluster", [Cluster(), Cluster(nodes=1, gpus_per_node=8)], ids=["two_nodes", "one_node"]
)
@pytest.mark.parametrize("speed", [1.0, 8.0])
def test_every_step_earns_the_verdict(name: str, cluster: Cluster, speed: float) -> None:
    for seed in (0, 11):
        run = make_run(name, seed, cluster=cluster, speed=speed)
        for plan in plan_run(run, 3):
            assert judge(run, plan) == SCENARIOS[name].verdict, (seed, plan.step)


def test_the_default_step_takes_about_ten_seconds() -> None:
    for name in SCENARIOS:
        plans = list(plan_run(make_run(name), 4))
        assert 7.0 <= statistics.fmean(plan.duration_s for plan in plans) <= 14.0, name
