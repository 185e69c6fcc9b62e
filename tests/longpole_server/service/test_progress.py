from longpole_server.model.step import Step
from longpole_server.service.progress import AttemptProgress
from support.server_runs import BEGIN_NS, S


def make_step(number: int, start_s: float, end_s: float | None) -> Step:
    return Step(
        run_id="run",
        step=number,
        attempt=1,
        start_ns=BEGIN_NS + round(start_s * S),
        end_ns=None if end_s is None else BEGIN_NS + round(end_s * S),
        duration_s=None if end_s is None else end_s - start_s,
        closed_by=None if end_s is None else "loop",
        stages=(),
        unattributed_s=None,
        outside=(),
    )


def test_neighbours_are_the_numbers_that_exist():
    progress = AttemptProgress([(10, True), (20, True), (30, False)])
    assert (progress.first, progress.before(10), progress.after(10)) == (10, None, 20)
    assert (progress.before(25), progress.after(25), progress.after(30)) == (20, 30, None)
    assert progress.is_closed(20)
    assert not progress.is_closed(30)
    assert not progress.is_closed(99)


def test_an_announcement_is_news_once():
    progress = AttemptProgress()
    assert progress.announce(5, BEGIN_NS)
    assert not progress.announce(5, BEGIN_NS + S)
    assert 5 in progress
    assert progress.start_ns(5) == BEGIN_NS
    assert not progress.is_closed(5)


def test_a_late_sample_finds_the_step_in_which_it_ended():
    progress = AttemptProgress()
    progress.record(make_step(1, 0.0, 10.0))
    progress.record(make_step(2, 10.5, 20.0))
    progress.record(make_step(3, 20.0, None))
    assert progress.closed_at(BEGIN_NS + 4 * S) == 1
    assert progress.closed_at(BEGIN_NS + 15 * S) == 2
    assert progress.closed_at(BEGIN_NS + round(10.2 * S)) is None
    assert progress.closed_at(BEGIN_NS + 25 * S) is None
