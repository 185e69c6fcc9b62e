from longpole_server.analysis.stale_drops import StaleDrops, count_by_samples, count_by_totals


def test_counters_are_read_between_steps():
    assert count_by_totals([(10, 100), (13, 112), (13, 130)]) == StaleDrops(3, 30)


def test_counters_that_fall_back_at_a_resume_tell_of_what_came_after():
    # 5 of 20 before, 1 of 10 after it; the fall itself is no time at all.
    totals = [(40, 400), (45, 420), (2, 15), (3, 25)]
    assert count_by_totals(totals) == StaleDrops(6, 30)
    assert count_by_totals(totals, since_resumed=True) == StaleDrops(1, 10)
    assert count_by_totals(totals[:3], since_resumed=True) is None


def test_gaps_and_single_readings():
    assert count_by_totals([(None, 10), (1, None), (1, 10)]) is None
    assert count_by_totals([(1, 10), (None, None), (3, 20)]) == StaleDrops(2, 10)
    assert count_by_totals([(1, 10), (1, 10)]) is None


def test_samples_that_never_say_so_prove_nothing():
    assert count_by_samples(0, 64, ever_dropped=False) is None
    assert count_by_samples(0, 64, ever_dropped=True) == StaleDrops(0, 64)
    assert count_by_samples(16, 64, ever_dropped=True) == StaleDrops(16, 64)
    assert count_by_samples(0, 0, ever_dropped=True) is None
