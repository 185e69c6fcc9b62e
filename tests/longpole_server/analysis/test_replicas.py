import numpy as np
import pytest

from longpole_server.analysis.replicas import find_slowest_replica


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
