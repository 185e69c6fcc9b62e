from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from longpole_server.auth.attempts import Attempts, Source

STRANGER = Source("198.51.100.7", "ana")
OWNER = Source("192.0.2.1", "ana")


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def fail_until_refused(attempts: Attempts, source: Source) -> tuple[int, float]:
    """Return how many were tried, and how long the next has to wait."""
    for number in range(1_000):
        wait_s = attempts.begin(source)
        if wait_s > 0:
            return number, wait_s
    raise AssertionError("nothing is ever refused")


def test_who_goes_on_failing_waits_twice_as_long_each_time():
    clock = Clock()
    attempts = Attempts(clock_s=clock)
    assert fail_until_refused(attempts, STRANGER) == (6, 5.0)
    waits: list[float] = []
    for _ in range(10):
        clock.seconds += attempts.begin(STRANGER)
        assert attempts.begin(STRANGER) == 0
        waits.append(attempts.begin(STRANGER))
    assert waits == [10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 900.0, 900.0, 900.0]


def test_a_stranger_keeps_nobody_else_out():
    attempts = Attempts(clock_s=Clock())
    fail_until_refused(attempts, STRANGER)
    assert attempts.begin(OWNER) == 0
    # Nor by trying many names, of which each would cost little.
    for number in range(100):
        attempts.begin(replace(STRANGER, name=f"somebody {number}"))
    assert attempts.begin(replace(STRANGER, name="one more")) > 0
    assert attempts.begin(OWNER) == 0


def test_many_addresses_together_guess_one_name_slowly_and_its_owner_s_browser_is_let_in():
    clock = Clock()
    attempts = Attempts(clock_s=clock)
    tried = 0
    while clock.seconds < 7_200:
        for number in range(20):
            tried += attempts.begin(Source(f"10.0.{number}.{tried % 250}", "ana")) == 0
        clock.seconds += 10.0
    assert tried <= 50 + 10 + 7_200 / 60
    attempts.begin(Source("198.51.100.9", "ana"))
    assert attempts.begin(OWNER) > 0
    assert attempts.begin(replace(OWNER, mark="a mark")) == 0


def test_a_mark_is_no_way_around():
    attempts = Attempts(clock_s=Clock())
    assert fail_until_refused(attempts, replace(OWNER, mark="a"))[0] == 11
    # Moving elsewhere with it changes nothing.
    assert attempts.begin(Source("203.0.113.9", "ana", "a")) > 0


def test_attempts_at_once_count_before_they_are_known_to_fail():
    attempts = Attempts(clock_s=Clock())
    assert sum(attempts.begin(STRANGER) == 0 for _ in range(1_000)) == 6


def test_who_proves_it_starts_anew_and_others_do_not():
    attempts = Attempts(clock_s=Clock())
    for _ in range(100):
        assert attempts.begin(OWNER) == 0
        attempts.succeed(OWNER)
    other = replace(OWNER, name="bo")
    for _ in range(200):
        attempts.begin(other)
        if attempts.begin(OWNER) == 0:
            attempts.succeed(OWNER)
    assert attempts.begin(other) > 0


def test_after_a_pause_everybody_starts_anew():
    clock = Clock()
    attempts = Attempts(pause_s=100.0, clock_s=clock)
    fail_until_refused(attempts, STRANGER)
    clock.seconds = 100.0
    assert fail_until_refused(attempts, STRANGER) == (6, 5.0)


def test_addresses_that_one_client_chooses_from_are_one():
    attempts = Attempts(clock_s=Clock())
    for number in range(6):
        assert attempts.begin(Source(f"2001:db8:1:2::{number}", "ana")) == 0
    assert attempts.begin(Source("2001:db8:1:2:ffff::1", "ana")) > 0
    assert attempts.begin(Source("2001:db8:1:3::1", "ana")) == 0
    fail_until_refused(attempts, STRANGER)
    assert attempts.begin(Source(f"::ffff:{STRANGER.address}", "ana")) > 0


def test_who_has_to_wait_is_told_of_once_in_a_while():
    clock = Clock()
    attempts = Attempts(clock_s=clock)
    assert not attempts.is_news(STRANGER)
    fail_until_refused(attempts, STRANGER)
    assert [attempts.is_news(STRANGER) for _ in range(3)] == [True, False, False]
    clock.seconds = 5.0
    assert attempts.begin(STRANGER) == 0
    assert not attempts.is_news(STRANGER)


@given(st.lists(st.text(max_size=3), max_size=50))
def test_whatever_somebody_calls_himself_memory_is_bounded(names: list[str]):
    attempts = Attempts(clock_s=Clock())
    for name in names:
        attempts.begin(Source(name, name))
    assert len(attempts._counts) <= 3 * len(names)


def test_memory_is_bounded():
    attempts = Attempts(clock_s=Clock())
    for number in range(3_400):
        attempts.begin(Source(f"host {number}", f"name {number}"))
    assert len(attempts._counts) == 10_000
