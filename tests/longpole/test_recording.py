import asyncio
import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest

import longpole
from support.reserved_port import reserved_port
from support.sdk_receiver import DEADLINE_S, FakeReceiver


@pytest.fixture
def receiver() -> Iterator[FakeReceiver]:
    with FakeReceiver() as receiver:
        yield receiver


@pytest.fixture
def recording(receiver: FakeReceiver) -> Iterator[FakeReceiver]:
    """The SDK, initialised and sending to the receiver."""
    longpole.init("run-1", "project-1", endpoint=receiver.endpoint, token="secret", host="node-1")
    yield receiver
    longpole.shutdown(timeout_s=DEADLINE_S)


def flush() -> None:
    assert longpole.flush(DEADLINE_S)


def test_everything_of_a_step_arrives(receiver: FakeReceiver) -> None:
    longpole.init(
        "run-1",
        endpoint=receiver.endpoint,
        token="secret",
        config={"group_size": 8, "hf_token": "hunter2"},
    )
    with longpole.step(3) as window:
        with longpole.stage("gen"):
            longpole.trajectory("t-1", start_ns=1, end_ns=time.time_ns(), reward=0.5)
        with (
            longpole.stage("update_weights", method="nccl", bytes=10),
            longpole.sync_phase("transfer"),
        ):
            pass
        window.set(tokens_total=100)
    longpole.log(3, {"timing_s/gen": 1.5, "perf/total_num_tokens": 100})
    longpole.shutdown("finished", timeout_s=DEADLINE_S)

    assert {span.name for span in receiver.spans()} == {
        "rl.loop",
        "rl.sample",
        "rl.sync",
        "rl.sync.transfer",
        "rl.trajectory",
    }
    (loop,) = receiver.spans("rl.loop")
    assert loop.attributes == {"rl.loop.iteration": 3, "rl.tokens.total": 100}
    points = {point.name: (point.value, point.attributes) for point in receiver.points()}
    assert points == {
        "timing_s/gen": (1.5, {"rl.loop.iteration": 3}),
        "perf/total_num_tokens": (100, {"rl.loop.iteration": 3}),
    }
    (start,) = receiver.events("rl.run.start")
    assert start.attributes == {
        "event.name": "rl.run.start",
        "rl.config.group_size": 8,
        "rl.config.hf_token": "[redacted]",
    }
    (end,) = receiver.events("rl.run.end")
    assert end.attributes == {"event.name": "rl.run.end", "rl.status": "finished"}
    assert {request.headers["authorization"] for request in receiver.requests} == {"Bearer secret"}
    resources = [item.resource for item in (*receiver.spans(), *receiver.points(), start, end)]
    assert all(resource == resources[0] for resource in resources)
    assert resources[0]["rl.run.id"] == "run-1"
    stats = longpole.stats()
    assert stats.sent == {"events": 5, "spans": 4, "points": 2, "trajectories": 1}
    assert not any((*stats.dropped.values(), *stats.skipped.values(), *stats.waiting.values()))


def test_open_stage_is_announced_and_announced_again(
    receiver: FakeReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGPOLE_HEARTBEAT_S", "0.05")
    longpole.init("run-1", endpoint=receiver.endpoint)

    def count(stage: str) -> int:
        events = receiver.events("rl.stage.start")
        return sum(event.attributes["rl.stage"] == stage for event in events)

    with longpole.step(3), longpole.stage("gen"):
        receiver.wait_for(lambda: count("gen") >= 3 and count("step") >= 3)
    longpole.shutdown(timeout_s=DEADLINE_S)
    events = [e for e in receiver.events() if e.attributes.get("rl.stage") == "gen"]
    (span,) = receiver.spans("rl.sample")
    for event in events:
        assert event.attributes == {
            "event.name": "rl.stage.start",
            "rl.loop.iteration": 3,
            "rl.stage": "gen",
            "rl.start_ns": span.start_ns,
        }
        assert event.span_id == span.span_id
    times = [event.time_ns for event in events]
    assert times[0] == span.start_ns
    assert times == sorted(set(times))


def test_what_has_no_number_is_skipped_and_counted(recording: FakeReceiver) -> None:
    longpole.log(
        np.int64(1),  # type: ignore[arg-type]
        {
            "val-core/openai/gsm8k/acc/mean@1": np.float32(0.5),
            "nan": math.nan,
            "array": np.array(3.0),
            "infinite": -math.inf,
            "text": "high",
            "none": None,
        },
    )
    flush()
    names = {point.name for point in recording.points()}
    assert names == {"val-core/openai/gsm8k/acc/mean@1", "nan", "array"}
    assert longpole.stats().skipped["points"] == 3


def test_rank_that_follows_leaves_steps_metrics_and_the_run_to_rank_0(
    receiver: FakeReceiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    before = longpole.stats().misused.get("follows_rank_0", 0)
    longpole.init("run-1", endpoint=receiver.endpoint, config={"group_size": 8})
    for iteration in (1, 2):
        with longpole.step(iteration) as window, longpole.stage("update_actor"):
            longpole.trajectory(f"t-{iteration}", start_ns=1, end_ns=time.time_ns())
            window.set(tokens_total=100)
        longpole.log(iteration, {"loss": 0.5, "reward": 1})
    call(longpole.log, 3, None)
    longpole.shutdown(timeout_s=DEADLINE_S)

    spans = receiver.spans()
    assert sorted((span.name, span.attributes["rl.loop.iteration"]) for span in spans) == [
        ("rl.train", 1),
        ("rl.train", 2),
        ("rl.trajectory", 1),
        ("rl.trajectory", 2),
    ]
    assert {span.resource["rl.role"] for span in spans} == {"trainer"}
    assert receiver.points() == []
    events = [(event.name, event.attributes["rl.stage"]) for event in receiver.events()]
    assert events == [("rl.stage.start", "update_actor")] * 2
    stats = longpole.stats()
    assert stats.skipped == {"events": 0, "spans": 0, "points": 4, "trajectories": 0}
    assert stats.misused["follows_rank_0"] == before + 2
    assert sum("rank 0 logs" in message for message in caplog.messages) == (before == 0)


def test_named_role_sends_its_steps_and_metrics_and_leaves_the_run_to_the_controller(
    receiver: FakeReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    longpole.init("run-1", endpoint=receiver.endpoint, role="critic")
    with longpole.step(1):
        longpole.log(1, {"critic/loss": 0.5})
    longpole.shutdown("crashed", timeout_s=DEADLINE_S)
    (loop,) = receiver.spans("rl.loop")
    assert loop.resource["rl.role"] == "critic"
    assert [point.name for point in receiver.points()] == ["critic/loss"]
    assert [event.name for event in receiver.events()] == ["rl.stage.start"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("out of memory"), "crashed"),
        (StopIteration(), "crashed"),
        (asyncio.CancelledError(), "crashed"),
        (SystemExit(1), "crashed"),
        (SystemExit("no data"), "crashed"),
        (SystemExit(["no data"]), "crashed"),
        (SystemExit(0), "finished"),
        (SystemExit(), "finished"),
        (KeyboardInterrupt(), "finished"),
        (GeneratorExit(), "finished"),
    ],
)
def test_shutdown_sees_the_exception_that_passes(
    receiver: FakeReceiver, error: BaseException, status: str
) -> None:
    longpole.init("run-1", endpoint=receiver.endpoint)
    with pytest.raises(type(error)):
        try:
            raise error
        finally:
            longpole.shutdown(timeout_s=DEADLINE_S)
    (end,) = receiver.events("rl.run.end")
    assert end.attributes["rl.status"] == status


def test_shutdown_after_a_handled_exception_is_finished(receiver: FakeReceiver) -> None:
    longpole.init("run-1", endpoint=receiver.endpoint)
    try:
        raise RuntimeError("once")
    except RuntimeError:
        pass
    longpole.shutdown(timeout_s=DEADLINE_S)
    (end,) = receiver.events("rl.run.end")
    assert end.attributes["rl.status"] == "finished"


def test_said_status_wins_over_the_exception(receiver: FakeReceiver) -> None:
    longpole.init("run-1", endpoint=receiver.endpoint)
    try:
        raise RuntimeError("as planned")
    except RuntimeError:
        longpole.shutdown("finished", timeout_s=DEADLINE_S)
    (end,) = receiver.events("rl.run.end")
    assert end.attributes["rl.status"] == "finished"


def test_trajectory_belongs_to_the_open_step_if_it_ends_within(recording: FakeReceiver) -> None:
    before_ns = time.time_ns() - 1_000_000_000
    longpole.trajectory("outside", start_ns=1, end_ns=2)
    with longpole.step(7):
        longpole.trajectory("within", start_ns=before_ns, end_ns=time.time_ns() + 1)
        longpole.trajectory("before", start_ns=1, end_ns=before_ns)
        longpole.trajectory("named", start_ns=1, end_ns=2, step=5)
    flush()
    steps = {
        span.attributes["rl.trajectory.id"]: span.attributes.get("rl.loop.iteration")
        for span in recording.spans("rl.trajectory")
    }
    assert steps == {"outside": None, "within": 7, "before": None, "named": 5}


def test_threads_record_at_once(recording: FakeReceiver) -> None:
    def work(number: int) -> None:
        for index in range(50):
            with longpole.stage("reward"):
                longpole.trajectory(f"{number}-{index}", start_ns=1, end_ns=2)
                longpole.log(1, {f"metric/{number}": index})

    with longpole.step(1):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    flush()
    assert len(recording.spans("rl.trajectory")) == len(recording.spans("rl.reward")) == 400
    assert len(recording.points()) == 400
    (loop,) = recording.spans("rl.loop")
    assert {span.parent for span in recording.spans("rl.reward")} == {loop.span_id}
    ids = {span.span_id for span in recording.spans()}
    assert len(ids) == len(recording.spans())


def test_asyncio_tasks_record_at_once(recording: FakeReceiver) -> None:
    async def work() -> None:
        with longpole.stage("gen"):
            await asyncio.sleep(0)
            with longpole.sync_phase("abort"):
                await asyncio.sleep(0)

    async def run() -> None:
        with longpole.step(1):
            await asyncio.gather(*(work() for _ in range(20)))

    asyncio.run(run())
    flush()
    stages = {span.span_id for span in recording.spans("rl.sample")}
    assert {span.parent for span in recording.spans("rl.sync.abort")} == stages
    assert len(stages) == 20


@pytest.fixture
def port() -> Iterator[int]:
    """Where nobody listens yet."""
    with reserved_port() as port:
        yield port


def test_receiver_that_comes_late_gets_everything(port: int) -> None:
    before = longpole.stats().misused.get("receiver_unreachable", 0)
    longpole.init("run-1", endpoint=f"http://127.0.0.1:{port}")
    with longpole.step(1), longpole.stage("gen"):
        pass
    longpole.log(1, {"a": 1})
    longpole.trajectory("t", start_ns=1, end_ns=2)
    assert not longpole.flush(0.05)
    assert longpole.stats().misused["receiver_unreachable"] == before + 1
    with FakeReceiver(port) as receiver:
        flush()
        assert {span.name for span in receiver.spans()} == {"rl.loop", "rl.sample", "rl.trajectory"}
        assert len(receiver.points()) == 1
        longpole.shutdown(timeout_s=DEADLINE_S)
        assert len(receiver.events()) == 4


def test_dead_receiver_costs_records_only(port: int) -> None:
    longpole.init("run-1", endpoint=f"http://127.0.0.1:{port}")
    for iteration in range(20):
        with longpole.step(iteration), longpole.stage("gen"):
            longpole.trajectory(start_ns=1, end_ns=2)
        longpole.log(iteration, {"a": 1})
    longpole.shutdown(timeout_s=DEADLINE_S)
    stats = longpole.stats()
    assert stats.dropped == {"events": 42, "spans": 40, "points": 20, "trajectories": 20}
    assert not any(stats.sent.values())


def test_slow_receiver_holds_nobody_up(receiver: FakeReceiver) -> None:
    receiver.behaviour.gate.clear()
    longpole.init("run-1", endpoint=receiver.endpoint)
    with longpole.step(1), longpole.stage("gen"):
        pass
    assert not longpole.flush(0.05)
    receiver.behaviour.gate.set()
    flush()
    assert len(receiver.spans()) == 2
    longpole.shutdown(timeout_s=DEADLINE_S)


def test_shutdown_leaves_a_stuck_receiver_in_time(receiver: FakeReceiver) -> None:
    receiver.behaviour.gate.clear()
    longpole.init("run-1", endpoint=receiver.endpoint)
    longpole.shutdown(timeout_s=0.05)
    assert receiver.requests == []


def test_full_buffers_drop_the_oldest_and_count(receiver: FakeReceiver) -> None:
    receiver.behaviour.gate.clear()
    longpole.init("run-1", endpoint=receiver.endpoint)
    for iteration in range(80_000):
        longpole.log(iteration, {"a": iteration})
    receiver.behaviour.gate.set()
    flush_is_complete = longpole.flush(DEADLINE_S)
    stats = longpole.stats()
    values = [point.value for point in receiver.points()]
    assert values[-1] == 79_999
    assert stats.sent["points"] == len(values)
    assert stats.sent["points"] + stats.dropped["points"] == 80_000
    assert stats.dropped["points"] >= 80_000 - 65_536 - 2_048
    assert flush_is_complete
    longpole.shutdown(timeout_s=DEADLINE_S)


def test_refused_batches_are_dropped_and_counted(recording: FakeReceiver) -> None:
    flush()
    recording.behaviour.statuses = [400]
    longpole.log(1, {"a": 1})
    assert not longpole.flush(DEADLINE_S)
    longpole.log(2, {"a": 2})
    flush()
    assert [point.value for point in recording.points()] == [2]
    assert longpole.stats().dropped["points"] == 1


def call(function: Callable[..., object], *arguments: object, **named: object) -> None:
    """Call without the type checker's help, as trainers do."""
    function(*arguments, **named)


class HostileMapping(dict[str, object]):
    def items(self) -> Any:
        raise RuntimeError("hostile")


MISUSES: list[tuple[Callable[[], None], str]] = [
    (lambda: call(longpole.init, "again"), "init_twice"),
    (lambda: call(longpole.log, "seven", {"a": 1}), "invalid_step"),
    (lambda: call(longpole.log, 1, None), "invalid_metrics"),
    (lambda: call(longpole.log, 1, HostileMapping()), "invalid_metrics"),
    (lambda: call(longpole.trajectory, start_ns=1, end_ns=2, parts=7), "invalid_trajectory"),
    (lambda: call(longpole.step, "seven"), "invalid_step"),
    (lambda: call(longpole.stage, 7), "invalid_stage"),
    (lambda: call(longpole.sync_phase, None), "invalid_stage"),
]


@pytest.mark.parametrize(("misuse", "kind"), MISUSES)
def test_misuse_raises_nothing_and_is_counted(
    recording: FakeReceiver, misuse: Callable[[], None], kind: str
) -> None:
    before = longpole.stats().misused.get(kind, 0)
    misuse()
    assert longpole.stats().misused[kind] == before + 1


def test_trajectory_without_times_is_skipped(recording: FakeReceiver) -> None:
    call(longpole.trajectory, start_ns="soon", end_ns=None)
    flush()
    assert longpole.stats().skipped["trajectories"] == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"endpoint": "localhost:4318"},
        {"config": 7},
        {"gpu_ids": 7},
        {"run_id": object(), "endpoint": "x"},
    ],
)
def test_init_that_cannot_work_raises_nothing(arguments: dict[str, Any]) -> None:
    before = longpole.stats().misused.get("init_failed", 0)
    call(longpole.init, **arguments)
    assert longpole.stats().misused["init_failed"] == before + 1
    with longpole.step(1) as window:
        window.set(tokens_total=1)
    longpole.shutdown(timeout_s=DEADLINE_S)


def test_after_shutdown_nothing_is_recorded_until_the_next_init(receiver: FakeReceiver) -> None:
    longpole.init("first", endpoint=receiver.endpoint)
    longpole.shutdown(timeout_s=DEADLINE_S)
    num_requests = len(receiver.requests)
    with longpole.step(1), longpole.stage("gen"):
        longpole.log(1, {"a": 1})
    assert longpole.flush(0.05)
    longpole.shutdown(timeout_s=0.05)
    assert len(receiver.requests) == num_requests
    longpole.init("second", endpoint=receiver.endpoint)
    with longpole.step(1):
        pass
    longpole.shutdown(timeout_s=DEADLINE_S)
    (loop,) = receiver.spans("rl.loop")
    assert loop.resource["rl.run.id"] == "second"
    first, second = receiver.events("rl.run.start")
    assert first.resource["rl.process.start_ns"] == second.resource["rl.process.start_ns"]


def test_random_states_that_the_trainer_seeded_are_left_alone(receiver: FakeReceiver) -> None:
    random.seed(0)
    np.random.seed(0)
    states = random.getstate(), repr(cast("Any", np.random.get_state()))
    longpole.init("run-1", endpoint=receiver.endpoint)
    with longpole.step(1), longpole.stage("gen"):
        longpole.trajectory(start_ns=1, end_ns=2)
    longpole.log(1, {"a": 1})
    longpole.shutdown(timeout_s=DEADLINE_S)
    assert receiver.spans()
    assert (random.getstate(), repr(cast("Any", np.random.get_state()))) == states


def test_an_unknown_argument_is_left_out_with_a_warning(
    receiver: FakeReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    before = longpole.stats().misused.get("unknown_argument", 0)
    longpole.init("run-1", endpoint=receiver.endpoint, bogus=1)
    assert longpole.stats().misused["unknown_argument"] == before + 1
    with longpole.step(1):
        pass
    longpole.shutdown(timeout_s=DEADLINE_S)
    assert receiver.spans("rl.loop")
    assert "init knows no argument bogus" in caplog.text or before
