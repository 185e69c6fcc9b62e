import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from longpole.buffers import Buffer
from longpole.complaints import Complaints
from longpole.conventions.attributes import ITERATION, STAGE
from longpole.spans import WindowSpan
from longpole.window_registry import WindowRegistry
from longpole.windows import StageWindow, StepWindow, Window
from support.sdk_clock import START_NS, FakeClock


class Recorder:
    """Windows, with their spans and announcements in lists."""

    def __init__(self, *, sends_steps: bool = True) -> None:
        self.clock = FakeClock()
        self.complaints = Complaints()
        self.announced: list[tuple[str | None, int | None, int]] = []
        self._buffer: Buffer[WindowSpan] = Buffer(1000)
        self._spans: list[WindowSpan] = []
        self.windows = WindowRegistry(
            self._buffer.append,
            self._announce,
            self.complaints,
            self.clock.build(),
            heartbeat_s=10.0,
            sends_steps=sends_steps,
        )

    def _announce(self, window: Window, now_ns: int) -> None:
        self.announced.append((window.stage, window.iteration, now_ns - START_NS))

    def step(self, iteration: object) -> StepWindow:
        return self.windows.build_step(iteration)

    def stage(self, name: object, iteration: object = None, **said: object) -> StageWindow:
        return self.windows.build_stage(
            name, iteration, said.get("method"), said.get("bytes"), said.get("delta_ratio")
        )

    @property
    def spans(self) -> list[WindowSpan]:
        self._spans.extend(self._buffer.take(1000))
        return self._spans

    def span(self, name: str) -> WindowSpan:
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def parent_name(self, span: WindowSpan) -> str | None:
        if not span.parent_span_id:
            return None
        parents = {other.span_id: other for other in self.spans}
        parent = parents[span.parent_span_id]
        assert parent.trace_id == span.trace_id
        return parent.name


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def attributes(span: WindowSpan) -> dict[str, Any]:
    return dict(span.attributes)


def test_step_is_a_root_span_with_its_iteration_and_tokens(recorder: Recorder) -> None:
    with recorder.step(7) as window:
        recorder.clock.advance(2.5)
        window.set(tokens_total=300, tokens_prompt=100, tokens_response=200)
    span = recorder.span("rl.loop")
    assert not span.parent_span_id
    assert (span.start_ns, span.end_ns) == (START_NS, START_NS + 2_500_000_000)
    assert attributes(span) == {
        "rl.loop.iteration": 7,
        "rl.tokens.total": 300,
        "rl.tokens.prompt": 100,
        "rl.tokens.response": 200,
    }


@pytest.mark.parametrize(
    ("stage", "span_name"),
    [
        ("gen", "rl.sample"),
        ("generate_sequences", "rl.sample"),
        ("reward", "rl.reward"),
        ("update_actor", "rl.train"),
        ("update_weights", "rl.sync"),
        ("old_log_prob", "rl.stage"),
        ("my own stage", "rl.stage"),
    ],
)
def test_stage_is_a_child_of_its_step(recorder: Recorder, stage: str, span_name: str) -> None:
    with recorder.step(3), recorder.stage(stage):
        pass
    span = recorder.span(span_name)
    assert attributes(span) == {"rl.loop.iteration": 3, "rl.stage": stage}
    assert recorder.parent_name(span) == "rl.loop"


def test_stages_nest_and_a_sync_has_phases(recorder: Recorder) -> None:
    sync = recorder.stage("update_weights", method="nccl", bytes=1 << 40)
    with recorder.step(1), sync:
        with recorder.windows.build_sync_phase("transfer"):
            pass
        sync.set(delta_ratio=0.25)
    sync_span, phase = recorder.span("rl.sync"), recorder.span("rl.sync.transfer")
    assert attributes(sync_span) == {
        "rl.loop.iteration": 1,
        "rl.stage": "update_weights",
        "rl.sync.method": "nccl",
        "rl.sync.bytes": 1 << 40,
        "rl.sync.delta_ratio": 0.25,
    }
    assert recorder.parent_name(phase) == "rl.sync"
    assert attributes(phase) == {"rl.loop.iteration": 1}


@pytest.mark.parametrize("jump_s", [2.2, -2.2])
def test_stages_lie_in_their_step_though_the_wall_clock_is_set_meanwhile(
    recorder: Recorder, jump_s: float
) -> None:
    with recorder.step(1):
        with recorder.stage("gen"):
            recorder.clock.advance(6)
        recorder.clock.wall_ns += int(jump_s * 1e9)
        recorder.clock.advance(1)
        with recorder.stage("update_actor"):
            recorder.clock.advance(2)
    with recorder.step(2):
        recorder.clock.advance(1)
    _, update, step, second = recorder.spans
    assert (update.attributes[STAGE], step.attributes) == ("update_actor", {ITERATION: 1})
    assert (update.start_ns - START_NS, update.end_ns - START_NS) == (7 * 10**9, 9 * 10**9)
    assert (step.end_ns - START_NS) == 9 * 10**9
    assert second.start_ns - START_NS == round((9 + jump_s) * 1e9), "the next step has the new time"


def test_wall_clock_jumps_do_not_change_durations(recorder: Recorder) -> None:
    with recorder.step(1):
        recorder.clock.advance(4)
        recorder.clock.wall_ns -= 3600 * 1_000_000_000
    span = recorder.span("rl.loop")
    assert span.end_ns - span.start_ns == 4_000_000_000


def test_exception_closes_windows_as_failed_and_passes_on(recorder: Recorder) -> None:
    with pytest.raises(ValueError, match="boom"), recorder.step(1), recorder.stage("gen"):
        raise ValueError("boom")
    for name in ("rl.sample", "rl.loop"):
        assert recorder.span(name).error == "ValueError: boom"
    with recorder.step(2):
        pass
    assert recorder.complaints.count() == {}


def test_exception_that_cannot_be_written_still_closes_the_window(recorder: Recorder) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    with pytest.raises(MuteError), recorder.stage("gen"):
        raise MuteError
    assert recorder.span("rl.sample").error == "MuteError"


def test_generator_closed_inside_a_stage_is_no_failure(recorder: Recorder) -> None:
    def produce() -> Any:
        with recorder.stage("gen"):
            yield 1

    generator = produce()
    next(generator)
    generator.close()
    assert recorder.span("rl.sample").error is None


def test_stage_in_a_thread_belongs_to_the_open_step(recorder: Recorder) -> None:
    def reward() -> None:
        with recorder.stage("reward"):
            pass

    with recorder.step(5):
        run_in_thread(reward)
    span = recorder.span("rl.reward")
    assert attributes(span)["rl.loop.iteration"] == 5
    assert recorder.parent_name(span) == "rl.loop"


def test_asyncio_tasks_keep_their_stages_apart(recorder: Recorder) -> None:
    async def work(name: str, phase: str, inside: asyncio.Event, go: asyncio.Event) -> None:
        with recorder.stage(name):
            inside.set()
            await go.wait()
            with recorder.windows.build_sync_phase(phase):
                await asyncio.sleep(0)

    async def run() -> None:
        first, second = asyncio.Event(), asyncio.Event()
        with recorder.step(1):
            await asyncio.gather(
                work("gen", "abort", first, second), work("reward", "resume", second, first)
            )

    asyncio.run(run())
    assert recorder.parent_name(recorder.span("rl.sync.abort")) == "rl.sample"
    assert recorder.parent_name(recorder.span("rl.sync.resume")) == "rl.reward"
    assert recorder.parent_name(recorder.span("rl.sample")) == "rl.loop"


def test_task_that_outlives_its_step_joins_the_open_one(recorder: Recorder) -> None:
    async def prefetch(go: asyncio.Event) -> None:
        await go.wait()
        with recorder.stage("gen"):
            pass

    async def run() -> None:
        go = asyncio.Event()
        with recorder.step(1):
            task = asyncio.create_task(prefetch(go))
        with recorder.step(2):
            go.set()
            await task

    asyncio.run(run())
    assert attributes(recorder.span("rl.sample"))["rl.loop.iteration"] == 2


def test_stage_outside_a_step_belongs_to_the_last_one(recorder: Recorder) -> None:
    with recorder.stage("testing"):
        pass
    with recorder.step(4):
        pass
    with recorder.stage("save_checkpoint"):
        pass
    with recorder.stage("gen", iteration=9):
        pass
    before, after = [span for span in recorder.spans if span.name == "rl.stage"]
    assert attributes(before) == {"rl.stage": "testing"}
    assert attributes(after) == {"rl.stage": "save_checkpoint", "rl.loop.iteration": 4}
    assert not after.parent_span_id
    assert attributes(recorder.span("rl.sample"))["rl.loop.iteration"] == 9


def test_steps_that_are_not_sent_still_say_where_stages_belong() -> None:
    recorder = Recorder(sends_steps=False)
    with recorder.step(3) as step:
        step.set(tokens_total=100)
        assert recorder.windows.open_step is step
        with recorder.stage("gen"), recorder.stage("reward"):
            recorder.clock.advance(10)
            recorder.windows.repeat_announcements()
    assert recorder.windows.open_step is None
    with recorder.stage("testing"):
        pass
    inner, outer, after = recorder.spans
    assert [attributes(span)["rl.stage"] for span in recorder.spans] == ["reward", "gen", "testing"]
    assert {attributes(span)["rl.loop.iteration"] for span in recorder.spans} == {3}
    assert not outer.parent_span_id
    assert not after.parent_span_id
    assert recorder.parent_name(inner) == "rl.sample"
    ten_s = 10_000_000_000
    assert recorder.announced == [
        ("gen", 3, 0),
        ("reward", 3, 0),
        ("gen", 3, ten_s),
        ("reward", 3, ten_s),
        ("testing", 3, ten_s),
    ]
    assert recorder.complaints.count() == {}


def test_steps_that_are_not_sent_end_each_other_and_are_not_entered_twice() -> None:
    recorder = Recorder(sends_steps=False)
    abandoned = recorder.step(1)
    abandoned.__enter__()
    recorder.stage("gen").__enter__()
    with recorder.step(2) as step, step, recorder.stage("reward"):
        pass
    assert [attributes(span)["rl.loop.iteration"] for span in recorder.spans] == [1, 2]
    assert recorder.complaints.count() == {"nested_step": 1, "reentered": 1}


def test_window_object_can_be_used_again(recorder: Recorder) -> None:
    stage = recorder.stage("gen")
    for iteration in (1, 2):
        with recorder.step(iteration), stage:
            pass
    samples = [span for span in recorder.spans if span.name == "rl.sample"]
    assert [attributes(span)["rl.loop.iteration"] for span in samples] == [1, 2]
    assert len({span.span_id for span in samples}) == 2


def test_new_step_ends_the_one_it_began_inside(recorder: Recorder) -> None:
    abandoned = recorder.step(1)
    abandoned.__enter__()
    recorder.stage("gen").__enter__()
    with recorder.step(2), recorder.stage("reward"):
        pass
    abandoned.__exit__(None, None, None)
    loops = [span for span in recorder.spans if span.name == "rl.loop"]
    assert [attributes(span)["rl.loop.iteration"] for span in loops] == [1, 2]
    assert attributes(recorder.span("rl.sample"))["rl.loop.iteration"] == 1
    assert attributes(recorder.span("rl.reward"))["rl.loop.iteration"] == 2
    assert recorder.complaints.count() == {"nested_step": 1}
    assert recorder.windows.open_step is None


def test_steps_in_two_threads_do_not_end_each_other(recorder: Recorder) -> None:
    def other_loop() -> None:
        with recorder.step(100):
            pass

    with recorder.step(1):
        run_in_thread(other_loop)
        with recorder.stage("gen"):
            pass
        assert recorder.windows.open_step is not None
    assert attributes(recorder.span("rl.sample"))["rl.loop.iteration"] == 1
    assert recorder.complaints.count() == {}


def test_windows_closed_out_of_order_do_not_confuse_later_ones(recorder: Recorder) -> None:
    with recorder.step(1):
        first, second = recorder.stage("gen"), recorder.stage("reward")
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        second.__exit__(None, None, None)
        with recorder.stage("update_actor"):
            pass
    assert recorder.parent_name(recorder.span("rl.train")) == "rl.loop"


def test_open_windows_are_announced_again_and_again(recorder: Recorder) -> None:
    with recorder.step(1):
        recorder.clock.advance(3)
        with recorder.stage("gen"), recorder.windows.build_sync_phase("abort"):
            assert recorder.announced == [("step", 1, 0), ("gen", 1, 3_000_000_000)]
            recorder.clock.advance(9.9)
            recorder.windows.repeat_announcements()
            assert recorder.announced[2:] == [("step", 1, 12_900_000_000)]
            recorder.clock.advance(10)
            recorder.windows.repeat_announcements()
            recorder.windows.repeat_announcements()
            assert recorder.announced[3:] == [
                ("step", 1, 22_900_000_000),
                ("gen", 1, 22_900_000_000),
            ]
    recorder.clock.advance(60)
    recorder.windows.repeat_announcements()
    assert len(recorder.announced) == 5


MISUSES: list[tuple[Callable[[Recorder], None], str]] = [
    (lambda recorder: enter(recorder.step("seven")), "invalid_step"),
    (lambda recorder: enter(recorder.step(None)), "invalid_step"),
    (lambda recorder: enter(recorder.step(1.5)), "invalid_step"),
    (lambda recorder: enter(recorder.stage(None)), "invalid_stage"),
    (lambda recorder: enter(recorder.stage("")), "invalid_stage"),
    (lambda recorder: enter(recorder.windows.build_sync_phase(3)), "invalid_stage"),
    (lambda recorder: enter(recorder.stage("gen", bytes="many")), "invalid_value"),
    (lambda recorder: recorder.step(1).set(tokens_total=1), "set_when_closed"),
]


@pytest.mark.parametrize(("misuse", "kind"), MISUSES)
def test_misuse_is_counted_and_raises_nothing(
    recorder: Recorder, misuse: Callable[[Recorder], None], kind: str
) -> None:
    misuse(recorder)
    assert recorder.complaints.count() == {kind: 1}


def test_reentering_an_open_window_is_misuse(recorder: Recorder) -> None:
    stage = recorder.stage("gen")
    with stage, stage:
        pass
    assert len(recorder.spans) == 1
    assert recorder.complaints.count() == {"reentered": 1}


def test_failure_of_what_keeps_windows_does_not_reach_the_trainer() -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    complaints = Complaints()
    windows = WindowRegistry(fail, fail, complaints, FakeClock().build(), 10.0)
    with windows.build_step(1) as window:
        window.set(tokens_total=1)
    assert complaints.count() == {"internal": 2}
    assert windows.open_step is None


def test_abandoned_windows_record_nothing_more(recorder: Recorder) -> None:
    with recorder.step(1), recorder.stage("gen"):
        recorder.windows.abandon()
        with recorder.stage("reward"):
            pass
    recorder.clock.advance(60)
    recorder.windows.repeat_announcements()
    assert recorder.spans == []
    assert len(recorder.announced) == 2


def enter(window: Window) -> None:
    with window:
        pass


def run_in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
