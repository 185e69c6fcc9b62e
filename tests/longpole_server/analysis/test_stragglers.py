"""Each GPU and replica against the best of its kind: who is named, and who is not."""

from dataclasses import replace

import pytest

from longpole_server.analysis.stragglers import (
    score_gpus,
    score_replicas,
    score_step,
    stand_gpus,
    stand_replicas,
)
from longpole_server.model.facts import GpuFacts, TrajectoryFacts
from longpole_server.model.stragglers import Stragglers
from longpole_sim.gpu_timeline import faulty_gpu
from longpole_sim.samples import slow_replica
from longpole_sim.variation import draw_example
from support.offline_variants import FULL, Recording
from support.steps import samples

CLOCK, PACE = 0.85, 1.3


def make_gpus(*clocks_hz: float | None, role: str = "hybrid") -> list[GpuFacts]:
    return [
        GpuFacts(f"GPU-{at}", "node", at, role, busy_sm_clock_hz=hz)
        for at, hz in enumerate(clocks_hz)
    ]


def make_samples(paces: dict[str, float], tokens: dict[str, int] | None = None) -> TrajectoryFacts:
    """Samples of 16 lengths by replica, each decoded at the replica's seconds a token."""
    rows = [(name, 100 * at + (tokens or {}).get(name, 0)) for name in paces for at in range(1, 17)]
    times = [count * paces[name] for name, count in rows]
    made = samples(times, [count for _, count in rows], replicas=[name for name, _ in rows])
    return replace(made, generate_s=times)


def test_a_capped_clock_is_named_and_the_best_one_is_the_measure():
    capped, *others = score_gpus(make_gpus(1.9e9, 1.98e9, 1.0e9, 1.98e9, 1.95e9), CLOCK)
    assert (capped.gpu_uuid, capped.is_straggler) == ("GPU-2", True)
    assert capped.of_best_ratio == pytest.approx(1.0 / 1.98)
    assert [score.is_straggler for score in others] == [False] * 4
    assert others[-1].of_best_ratio == 1.0


def test_clocks_are_compared_within_a_role_and_never_guessed():
    trainer, rollout = make_gpus(*[1.2e9] * 4, role="trainer"), make_gpus(*[1.9e9] * 4)
    assert not any(score.is_straggler for score in score_gpus([*trainer, *rollout], CLOCK))
    unknown = score_gpus(make_gpus(None, 1.9e9), CLOCK)[-1]
    assert (unknown.gpu_uuid, unknown.of_best_ratio, unknown.is_straggler) == ("GPU-0", None, False)
    # Of two nobody can say which is the usual one.
    assert not any(score.is_straggler for score in score_gpus(make_gpus(0.5e9, 1.9e9), CLOCK))


def test_a_slow_replica_is_named_by_seconds_a_token():
    slow, *others = score_replicas(make_samples({"a": 0.01, "b": 0.02, "c": 0.011}), PACE)
    assert (slow.replica, slow.is_straggler) == ("b", True)
    assert slow.of_best_ratio == pytest.approx(0.5)
    assert slow.like_lengths_ratio == pytest.approx(2.0, rel=0.1)
    assert not any(score.is_straggler for score in others)


def test_longer_answers_are_no_straggler():
    longer = make_samples({"a": 0.01, "b": 0.01, "c": 0.01}, {"b": 3000})
    assert not any(score.is_straggler for score in score_replicas(longer, PACE))
    # Even where long ones are decoded more slowly, there is nobody of like length to compare with.
    slower = make_samples({"a": 0.01, "b": 0.014, "c": 0.01}, {"b": 3000})
    assert not any(score.is_straggler for score in score_replicas(slower, PACE))


def test_nobody_tells():
    assert score_step([], None, clock_ratio=CLOCK, pace_ratio=PACE) == Stragglers()
    assert score_replicas(samples([1.0, 2.0], [10, 20]), PACE) == ()


def test_over_steps_who_was_slow_most_often_comes_first():
    usual = Stragglers(
        score_gpus(make_gpus(1.9e9, 1.8e9, 1.9e9, 1.9e9, None), CLOCK),
        score_replicas(make_samples({"a": 0.01, "b": 0.01, "c": 0.009}), PACE),
    )
    capped = Stragglers(
        score_gpus(make_gpus(1.9e9, 1.9e9, 1.0e9, 1.9e9, None), CLOCK),
        score_replicas(make_samples({"a": 0.01, "b": 0.02, "c": 0.01}), PACE),
    )
    gpus = stand_gpus([capped, usual, usual], {"GPU-2": 17})
    assert [gpu.gpu_uuid for gpu in gpus] == ["GPU-2", "GPU-1", "GPU-0", "GPU-3", "GPU-4"]
    # Once in three steps: it is named, and no straggler of the whole.
    assert (gpus[0].num_slow, gpus[0].num_steps, gpus[0].is_straggler) == (1, 3, False)
    assert (gpus[0].rank, gpus[1].rank, gpus[0].of_best_ratio) == (17, None, 1.0)
    assert (gpus[-1].num_steps, gpus[-1].of_best_ratio) == (0, None)
    replicas = stand_replicas([capped, capped, usual])
    assert [(each.replica, each.num_slow) for each in replicas[:1]] == [("b", 2)]
    assert replicas[0].is_straggler
    assert replicas[0].num_samples == 3 * 16
    assert (stand_gpus([]), stand_replicas([])) == ((), ())


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", ["gpu_throttled", "replica_slow", "long_tail", "crowded_replica"])
def test_simulated_runs_name_the_right_one_and_nobody_else(name: str, seed: int):
    example = draw_example(name, seed)
    run = example.run
    steps = Recording(run, example.plans).observe(FULL).steps
    facts = steps[-1]
    found = score_step(facts.gpus, facts.trajectories, clock_ratio=CLOCK, pace_ratio=PACE)
    gpus = {score.gpu_uuid for score in found.gpus if score.is_straggler}
    replicas = {score.replica for score in found.replicas if score.is_straggler}
    if name == "gpu_throttled":
        faulty = faulty_gpu(run)
        assert faulty is not None
        assert gpus == {run.cluster.gpu_uuid(faulty)}
    elif name == "replica_slow":
        slow = run.cluster.replicas[slow_replica(run.cluster)]
        assert replicas == {slow.name}
        assert gpus <= {run.cluster.gpu_uuid(gpu) for gpu in slow.gpus}
    else:
        assert (gpus, replicas) == (set(), set())
