import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from longpole_server.errors import ServerError, StoreError, WriterAwayError
from longpole_server.service import ChangeFeed
from longpole_server.service.following import Clocks, Follower
from longpole_server.service.news import News, NewsDesk, Seen
from longpole_server.service.revisions import Revisions


@dataclass
class Source:
    """Answers what it is told to, an error where it is one."""

    answers: list[News | ServerError]
    asked: list[Seen] = field(default_factory=list[Seen])

    def ask(self, seen: Seen, wait_s: float) -> News:
        self.asked.append(seen)
        answer = self.answers.pop(0)
        if isinstance(answer, ServerError):
            raise answer
        return answer


@dataclass
class Bench:
    source: Source
    changes: ChangeFeed = field(default_factory=ChangeFeed)
    revisions: Revisions = field(default_factory=Revisions)
    live: Sequence[str] = ()
    fails: bool = False
    now_s: float = 100.0

    def make(self, settle_s: float = 0.0) -> Follower:
        clocks = Clocks(lambda: round(self.now_s * 1e9), lambda: self.now_s)
        return Follower(self.source, self.changes, self.revisions, self.list_live, settle_s, clocks)

    def list_live(self) -> Sequence[str]:
        if self.fails:
            raise StoreError("away")
        return self.live


def news(epoch: str, version: int, *runs: str, is_everything: bool = False) -> News:
    notes = {"run": ("a note",)}
    return News(epoch, version, version, 5, is_everything, runs, notes, "nothing is judged")


def test_how_far_the_writing_server_is_behind_is_told_with_the_news():
    changes, revisions = ChangeFeed(), Revisions()
    desk = NewsDesk(changes, revisions, dict, lambda: None, lambda: 42.0)
    told = asyncio.run(desk.wait(Seen(), 0.0))
    follower = Bench(Source([told])).make()
    assert follower.lag_s == 0.0
    assert follower.follow()
    assert follower.lag_s == 42.0


def test_runs_that_changed_elsewhere_are_read_again_here():
    bench = Bench(Source([news("e", 1, is_everything=True), news("e", 2, "a"), news("e", 2)]))
    follower = bench.make()
    assert follower.explain_blindness() is not None
    assert follower.follow()
    first = bench.revisions.of("a")
    assert follower.follow()
    assert (bench.revisions.of("a"), bench.revisions.of("b")) == (first + 1, first)
    assert (bench.changes.current.version, bench.changes.current.ts_ns) == (2, 5)
    assert follower.follow()
    assert bench.changes.current.version == 2, "nothing was new"
    assert bench.source.asked == [Seen(), Seen("e", 1, 1), Seen("e", 2, 2)]
    assert follower.away_s == 0
    assert follower.list_notes("run") == ("a note",)
    assert follower.list_notes("other") == ()
    assert follower.explain_blindness() == "nothing is judged"


def test_a_server_that_took_over_may_have_changed_every_run():
    bench = Bench(Source([news("e", 9, is_everything=True), news("f", 1, is_everything=True)]))
    follower = bench.make()
    follower.follow()
    before = bench.revisions.of("a")
    follower.follow()
    assert bench.revisions.of("a") > before
    assert bench.changes.current.version == 2


def test_live_runs_are_read_now_and_then_while_nobody_answers():
    away = WriterAwayError("nobody answers")
    bench = Bench(Source([news("e", 1, is_everything=True), *[away] * 9]), live=["a"])
    follower = bench.make()
    follower.follow()
    before = bench.revisions.of("a"), bench.revisions.of("b")
    for _ in range(9):
        assert not follower.follow()
        bench.now_s += 1
    assert bench.revisions.of("a") == before[0] + 2, "each five seconds"
    assert bench.revisions.of("b") == before[1]
    assert follower.away_s == 9
    assert follower.num_failed == 9
    said = follower.explain_blindness()
    assert said is not None
    assert "nobody answers" in said


def test_a_store_that_is_away_too_changes_nothing():
    bench = Bench(Source([WriterAwayError("away")]), fails=True)
    assert not bench.make().follow()
    assert bench.changes.current.version == 0


def test_on_a_cluster_a_run_is_read_once_more_when_replicas_have_caught_up():
    bench = Bench(Source([news("e", 1, is_everything=True), news("e", 2, "a"), news("e", 2)]))
    follower = bench.make(settle_s=3.0)
    follower.follow()
    follower.follow()
    before = bench.revisions.of("a")
    bench.now_s += 4
    follower.follow()
    assert bench.revisions.of("a") == before + 1
    assert bench.changes.current.version == 3


async def test_a_desk_tells_what_changed_since_and_everything_to_whom_it_does_not_know():
    changes, revisions = ChangeFeed(), Revisions()
    desk = NewsDesk(changes, revisions, dict, lambda: None)
    revisions.bump("a")
    changes.publish(7)
    first = await desk.wait(Seen(), 60.0)
    assert (first.is_everything, first.runs, first.version, first.ts_ns) == (True, (), 1, 7)
    revisions.bump("b")
    changes.publish(8)
    second = await desk.wait(Seen(first.epoch, first.version, first.writes), 60.0)
    assert (second.is_everything, list(second.runs), second.version) == (False, ["b"], 2)
    third = await desk.wait(Seen(second.epoch, second.version, second.writes), 0.0)
    assert list(third.runs) == []
