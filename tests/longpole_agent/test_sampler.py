import threading
from collections.abc import Callable, Sequence

import pytest

from longpole_agent.clock import SystemClock
from longpole_agent.counters import Counters
from longpole_agent.sampler import Sampler
from longpole_agent.sources.source import Point, Source
from support.agent_clock import FakeClock
from support.agent_waiting import wait_until

SECOND = 1_000_000_000


class FakeSource:
    """Gives one point a sample; does what it is told before."""

    def __init__(self, name: str = "fake", before: Callable[[], object] = lambda: None) -> None:
        self.name = name
        self.asked_ns: list[int] = []
        self.closed = False
        self._before = before

    def sample(self, ts_ns: int) -> Sequence[Point]:
        self.asked_ns.append(ts_ns)
        self._before()
        return [Point(self.name, "1", "gauge", ts_ns, 1.0)]

    def close(self) -> None:
        self.closed = True


class Published:
    """What the sampler publishes; stops it after so many ticks."""

    def __init__(self, num_ticks: int) -> None:
        self.ticks: list[list[Point]] = []
        self.done = threading.Event()
        self._num_ticks = num_ticks

    def __call__(self, points: list[Point]) -> None:
        self.ticks.append(points)
        if len(self.ticks) >= self._num_ticks:
            self.done.set()


def run(
    clock: FakeClock, num_ticks: int, *sources: Source, interval_s: float = 1.0
) -> tuple[list[list[Point]], Counters]:
    """Run a sampler for so many ticks of a fake clock, which stops it by itself."""
    counters = Counters()
    published = Published(num_ticks)
    sampler = Sampler(sources, interval_s, published, counters, _StoppingClock(clock, published))
    sampler.start()
    assert published.done.wait(60)
    sampler.close(60)
    return published.ticks[:num_ticks], counters


class _StoppingClock:
    """Lets time stand still once enough was published."""

    def __init__(self, clock: FakeClock, published: Published) -> None:
        self._clock = clock
        self._published = published

    def now_ns(self) -> int:
        return self._clock.now_ns()

    def monotonic_ns(self) -> int:
        return self._clock.monotonic_ns()

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        if self._published.done.is_set():
            return stop.wait(60)
        return self._clock.wait(stop, seconds)


def times(ticks: list[list[Point]]) -> list[float]:
    return [tick[0].ts_ns / SECOND for tick in ticks]


def test_ticks_on_the_whole_second_without_drift() -> None:
    clock = FakeClock(1000.3)
    source = FakeSource(before=lambda: clock.advance(0.123))
    ticks, counters = run(clock, 5, source)
    assert times(ticks) == [1001, 1002, 1003, 1004, 1005]
    assert counters.missed_ticks == 0


@pytest.mark.parametrize(("interval_s", "expected"), [(0.5, [7.5, 8.0, 8.5]), (10, [10, 20, 30])])
def test_ticks_on_multiples_of_the_interval(interval_s: float, expected: list[float]) -> None:
    ticks, _ = run(FakeClock(7.1), 3, FakeSource(), interval_s=interval_s)
    assert times(ticks) == expected


def test_all_sources_are_in_one_tick() -> None:
    ticks, _ = run(FakeClock(0.5), 2, FakeSource("a"), FakeSource("b"), FakeSource("c"))
    assert [[point.metric for point in tick] for tick in ticks] == [["a", "b", "c"]] * 2


def test_waking_up_late_misses_nothing() -> None:
    clock = FakeClock(100.5)
    clock.oversleep_s = [0.0, 0.6, 0.0]
    ticks, counters = run(clock, 3, FakeSource())
    assert times(ticks) == [101, 102, 103]
    assert counters.missed_ticks == 0


def test_ticks_slept_through_are_counted_for_every_source() -> None:
    clock = FakeClock(100.5)
    clock.oversleep_s = [0.0, 3.2]
    ticks, counters = run(clock, 3, FakeSource("a"), FakeSource("b"))
    assert times(ticks) == [101, 105, 106]
    assert counters.missed_ticks == 3 * 2


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_setting_the_wall_clock_misses_nothing(step_s: float) -> None:
    clock = FakeClock(10_000.5)
    clock.wall_steps_s = [0.0, step_s]
    ticks, counters = run(clock, 4, FakeSource())
    assert times(ticks)[0] == 10_001
    assert times(ticks)[2] == times(ticks)[1] + 1
    assert abs(times(ticks)[1] - (10_002 + step_s)) <= 1
    assert counters.missed_ticks == 0


def test_a_slow_source_delays_nobody_and_its_points_come_later() -> None:
    release = threading.Event()
    slow, fast = FakeSource("slow", lambda: release.wait(60)), FakeSource("fast")
    counters = Counters()
    published = Published(1_000_000)
    sampler = Sampler([slow, fast], 0.05, published, counters, SystemClock())
    sampler.start()
    wait_until(lambda: len(fast.asked_ns) >= 5)
    assert len(slow.asked_ns) == 1
    assert {point.metric for tick in published.ticks for point in tick} == {"fast"}
    wait_until(lambda: counters.missed_ticks >= 4)
    release.set()
    wait_until(lambda: any(point.metric == "slow" for tick in published.ticks for point in tick))
    sampler.close(60)
    late = next(p for tick in published.ticks for p in tick if p.metric == "slow")
    assert late.ts_ns == slow.asked_ns[0]
    states = {state.name: state for state in sampler.states}
    assert states["slow"].num_missed >= 4


def test_a_failing_source_costs_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise RuntimeError("broken cable")

    clock = FakeClock(0.5)
    sources = [FakeSource("bad", fail), FakeSource("good")]
    counters = Counters()
    published = Published(3)
    sampler = Sampler(sources, 1.0, published, counters, _StoppingClock(clock, published))
    sampler.start()
    assert published.done.wait(60)
    assert {state.name: state.error for state in sampler.states} == {
        "bad": "broken cable",
        "good": "",
    }
    sampler.close(60)
    assert all([point.metric for point in tick] == ["good"] for tick in published.ticks)
    assert caplog.text.count("source bad failed") == 1
    assert all(source.closed for source in sources)


def test_a_hanging_source_does_not_hold_up_the_end(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()
    hanging = FakeSource("hanging", lambda: release.wait(60))
    sampler = Sampler([hanging], 0.05, lambda _: None, Counters(), SystemClock())
    sampler.start()
    wait_until(lambda: bool(hanging.asked_ns))
    sampler.close(timeout_s=0.1)
    assert "source hanging hangs, left behind" in caplog.text
    assert not hanging.closed
    release.set()
