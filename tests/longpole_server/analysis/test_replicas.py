from dataclasses import replace

import numpy as np
import pytest

from longpole_server.analysis.replicas import find_slowest_replica, list_replica_loads
from support.steps import samples


def test_slowest_against_the_others():
    pace = find_slowest_replica(
        ["a", "a", "b", "b", "c", None],
        np.array([10.0, 20.0, 20.0, 40.0, 11.0, 999.0]),
        np.array([100.0, 200.0, 100.0, 200.0, 100.0, 1.0]),
    )
    assert pace is not None
    assert pace.replica == "b"
    assert pace.ratio == pytest.approx(0.2 / ((0.1 + 0.11) / 2))
    assert pace.length_ratio == pytest.approx(150 / 140)


def test_one_replica_has_no_peers():
    values = np.array([1.0, np.nan])
    assert find_slowest_replica(["a", "b"], values, values) is None
    assert find_slowest_replica(["a", "a"], np.array([1.0, 2.0]), np.array([5.0, 5.0])) is None


def test_like_lengths_are_compared_with_each_other():
    # Short samples take longer for a token everywhere, and "b" has more of them.
    tokens = np.array([100.0] * 2 + [1000.0] * 6 + [100.0] * 6 + [1000.0] * 2)
    pace_of = np.where(tokens == 100, 0.04, 0.01)
    names = ["a"] * 8 + ["b"] * 8
    pace = find_slowest_replica(names, tokens * pace_of, tokens)
    assert pace is not None
    assert pace.replica == "b"
    assert pace.ratio > 1.5
    assert pace.matched_ratio == pytest.approx(1)
    slow = find_slowest_replica(names, tokens * pace_of * np.array([1] * 8 + [2] * 8), tokens)
    assert slow is not None
    assert slow.matched_ratio == pytest.approx(2)


def test_lengths_that_do_not_meet_cannot_be_matched():
    tokens = np.array([10.0] * 4 + [1000.0] * 4)
    pace = find_slowest_replica(["a"] * 4 + ["b"] * 4, tokens, tokens)
    assert pace is not None
    assert pace.matched_ratio is None


def test_loads_by_replica():
    many = replace(
        samples([10.0, 20.0, 40.0, 5.0], [100, None, 200, 50], replicas=["a", "a", "b", None]),
        queue_s=[1.0, 3.0, None, None],
    )
    first, second = list_replica_loads(many)
    assert (first.replica, first.num_samples, first.tokens, first.end_s) == ("b", 1, 200, 40)
    assert first.seconds_per_token == pytest.approx(0.2)
    assert first.mean_queue_s is None
    assert (second.replica, second.mean_tokens, second.mean_queue_s) == ("a", 100, 2)
    assert second.seconds_per_token == pytest.approx(0.1)
    assert second.early_s == 20
    assert list_replica_loads(samples([1.0])) == ()
