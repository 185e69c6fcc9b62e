import random

from hypothesis import given
from hypothesis import strategies as st

from longpole_server.diagnosis.changes import MAX_SPAN, SPAN, find_changes
from longpole_server.model.annotations import VerdictChange

TAIL, TOOL, UPDATE, OUTSIDE = (
    "rollout.long_tail",
    "rollout.tool",
    "update.inefficient",
    "overhead.outside",
)


def steps_of(*runs: tuple[str | None, int], first: int = 1) -> list[tuple[int, str | None]]:
    """Return steps from (verdict, how often in a row)."""
    verdicts = [verdict for verdict, count in runs for _ in range(count)]
    return list(enumerate(verdicts, first))


def test_first_verdict_holds_from_the_first_step():
    assert find_changes(steps_of((TAIL, 20), first=7)) == (VerdictChange(7, TAIL, None),)


def test_run_too_short_for_a_vote():
    assert find_changes([]) == ()
    assert find_changes(steps_of((TAIL, SPAN - 1))) == ()


def test_change_is_dated_to_the_step_where_it_came():
    assert find_changes(steps_of((TAIL, 40), (TOOL, 40))) == (
        VerdictChange(1, TAIL, None),
        VerdictChange(41, TOOL, TAIL),
    )


def test_change_is_not_seen_before_it_holds():
    assert len(find_changes(steps_of((TAIL, 40), (TOOL, 3)))) == 1
    assert len(find_changes(steps_of((TAIL, 40), (TOOL, 4)))) == 2


def test_single_steps_change_nothing():
    runs = [(TAIL, 9), (OUTSIDE, 1)] * 30
    assert find_changes(steps_of(*runs)) == (VerdictChange(1, TAIL, None),)


def test_single_step_among_the_new_verdict():
    steps = steps_of((TAIL, 30), (TOOL, 2), (OUTSIDE, 1), (TOOL, 20))
    assert find_changes(steps)[1:] == (VerdictChange(31, TOOL, TAIL),)


def test_verdict_between_two_others_for_few_steps():
    steps = steps_of((TAIL, 30), (TOOL, 3), (UPDATE, 30))
    assert find_changes(steps)[1:] == (VerdictChange(34, UPDATE, TAIL),)


def test_steps_without_a_verdict_do_not_vote():
    steps = steps_of((TAIL, 20), (None, 50), (TOOL, 2), (None, 3), (TOOL, 2), (None, 1))
    assert find_changes(steps)[1:] == (VerdictChange(71, TOOL, TAIL),)


def test_return_to_the_verdict_before():
    steps = steps_of((TAIL, 150), (TOOL, 150), (TAIL, 150))
    assert [change.step for change in find_changes(steps)] == [1, 151, 301]


def test_slow_flapping_is_damped():
    steps = steps_of(*[(TAIL, 6), (TOOL, 6)] * 400)
    assert len(find_changes(steps)) < 50


def test_verdicts_at_a_limit_do_not_flicker():
    chance = random.Random(7)
    for likely in (0.5, 0.6, 0.7):
        steps = [(at, TAIL if chance.random() < likely else "balanced") for at in range(10_000)]
        assert len(find_changes(steps)) < 10_000 / 100


VERDICTS = st.lists(st.sampled_from((TAIL, TOOL, UPDATE, OUTSIDE, None)), max_size=120)


@given(VERDICTS)
def test_changes_are_changes(verdicts: list[str | None]):
    steps = list(enumerate(verdicts, 10))
    changes = find_changes(steps)
    numbers = dict(steps)
    before = None
    for change in changes:
        assert change.previous == before
        assert change.verdict != before
        assert numbers[change.step] == change.verdict
        before = change.verdict
    dates = [change.step for change in changes]
    assert dates == sorted(set(dates))


@given(VERDICTS, st.sampled_from((TAIL, TOOL)))
def test_a_verdict_that_stays_wins(verdicts: list[str | None], verdict: str):
    steps = list(enumerate([*verdicts, *[verdict] * MAX_SPAN]))
    changes = find_changes(steps)
    assert changes[-1].verdict == verdict


@given(VERDICTS, VERDICTS)
def test_what_comes_later_changes_no_mark(verdicts: list[str | None], later: list[str | None]):
    known = find_changes(list(enumerate(verdicts)))
    assert find_changes(list(enumerate([*verdicts, *later])))[: len(known)] == known
