import numpy as np
import pytest

from longpole_server.alerts.two_peaks import split_values


def test_shapes():
    rng = np.random.default_rng(3)
    bell = split_values(rng.normal(size=4_000).tolist())
    even = split_values(rng.uniform(size=4_000).tolist())
    binary = split_values([0.0] * 30 + [1.0] * 10)
    hacked = split_values([*rng.normal(0.3, 0.05, 700), *rng.normal(1.0, 0.05, 300)])
    assert bell is not None
    assert even is not None
    assert hacked is not None
    assert bell[0] == pytest.approx(0.64, abs=0.02)
    assert even[0] == pytest.approx(0.75, abs=0.02)
    assert binary == (pytest.approx(1.0), pytest.approx(0.25))
    assert hacked[0] > 0.95
    assert hacked[1] == pytest.approx(0.3, abs=0.01)


def test_too_few_or_all_the_same_have_no_shape():
    assert split_values([0.0, 1.0] * 7) is None
    assert split_values([0.5] * 100) is None
    assert split_values([float("nan")] * 100) is None
