from collections.abc import Sequence
from dataclasses import replace

import pytest

from longpole_server.analysis.replicas_queue import find_queue_imbalance, find_queue_waves
from longpole_server.model.facts import TrajectoryFacts
from support.steps import samples


def queued(
    durations_s: Sequence[float],
    queue_s: Sequence[float | None],
    replicas: Sequence[str | None] | None = None,
) -> TrajectoryFacts:
    return replace(samples(durations_s, replicas=replicas), queue_s=list(queue_s))


def test_waves_at_the_cap():
    waves = find_queue_waves(queued([10.0] * 4 + [20.0] * 4 + [30.0], [0] * 4 + [10] * 4 + [20]))
    assert waves is not None
    assert (waves.cap, waves.num_samples, waves.num_waves) == (4, 9, 3)
    assert waves.queued_ratio == pytest.approx(60 / 150)
    assert waves.at_cap_ratio == pytest.approx(1)
    assert waves.queue_s == 20
    assert waves.replica is None


def test_a_queue_for_something_else_than_a_place():
    waves = find_queue_waves(queued([10.0] * 4 + [20.0], [0, 0, 0, 0, 15]))
    assert waves is not None
    assert waves.at_cap_ratio == pytest.approx(10 / 15)


def test_the_replica_that_waits_most():
    many = queued([10.0, 10.0, 30.0], [0.0, 0.0, 20.0], ["a", "b", "b"])
    waves = find_queue_waves(many)
    assert waves is not None
    assert waves.replica == "b"
    imbalance = find_queue_imbalance(many)
    assert imbalance is not None
    assert (imbalance.replica, imbalance.mean_queue_s, imbalance.other_queue_s) == ("b", 10, 0)


def test_no_queue_is_reported():
    assert find_queue_waves(queued([1.0, 2.0], [None, None])) is None
    assert find_queue_waves(queued([1.0, 2.0], [0.0, 0.0])) is None
    assert find_queue_imbalance(queued([1.0, 2.0], [1.0, None], ["a", "b"])) is None
