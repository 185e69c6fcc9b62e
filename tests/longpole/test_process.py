import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.sdk_receiver import DEADLINE_S, FakeReceiver

# A stall of the machine at the exit is no trainer's loss here.
_PREFACE = """import os, random, sys, threading, time
import longpole, longpole.process
longpole.process._EXIT_TIMEOUT_S = 60.0
"""


class Program:
    """Runs a small trainer in its own process, its endpoint set by the environment."""

    def __init__(self, receiver: FakeReceiver, directory: Path) -> None:
        self._receiver = receiver
        self._file = directory / "trainer.py"

    def run(
        self, source: str, status: int = 0, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        self._file.write_text(_PREFACE + textwrap.dedent(source))
        environ = {**os.environ, "LONGPOLE_ENDPOINT": self._receiver.endpoint, **variables}
        result = subprocess.run(
            [sys.executable, str(self._file)],
            env=environ,
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE_S,
            check=False,
        )
        assert result.returncode == status, result.stderr
        return result


@pytest.fixture
def receiver() -> Iterator[FakeReceiver]:
    with FakeReceiver() as receiver:
        yield receiver


@pytest.fixture
def program(receiver: FakeReceiver, tmp_path: Path) -> Program:
    return Program(receiver, tmp_path)


def read_status(receiver: FakeReceiver) -> str:
    (end,) = receiver.events("rl.run.end")
    return end.attributes["rl.status"]


def test_calls_before_init_do_nothing_but_count(program: Program, receiver: FakeReceiver) -> None:
    result = program.run(
        """
        for i in range(3):
            with longpole.step(i) as window, longpole.stage("gen"), longpole.sync_phase("abort"):
                window.set(tokens_total=1)
            longpole.trajectory(start_ns=1, end_ns=2)
            longpole.log(i, {"a": 1})
        print(longpole.flush(), longpole.stats().misused, threading.active_count())
        longpole.shutdown()
        """
    )
    assert result.stdout == "True {'before_init': 15} 1\n"
    assert result.stderr.count("longpole:") == 1
    assert receiver.requests == []


def test_normal_exit_is_finished(program: Program, receiver: FakeReceiver) -> None:
    program.run(
        """
        longpole.init("run-1")
        with longpole.step(1):
            pass
        """
    )
    assert read_status(receiver) == "finished"
    assert len(receiver.spans("rl.loop")) == 1


def test_unhandled_exception_is_crashed(program: Program, receiver: FakeReceiver) -> None:
    result = program.run(
        """
        def theirs(kind, error, traceback):
            print("their hook saw", error)
        sys.excepthook = theirs
        longpole.init("run-1")
        with longpole.step(1):
            raise RuntimeError("out of memory")
        """,
        status=1,
    )
    assert result.stdout == "their hook saw out of memory\n"
    assert read_status(receiver) == "crashed"
    (loop,) = receiver.spans("rl.loop")
    assert (loop.is_error, loop.message) == (True, "RuntimeError: out of memory")


def test_shutdown_in_the_finally_of_a_crash_is_crashed(
    program: Program, receiver: FakeReceiver
) -> None:
    program.run(
        """
        longpole.init("run-1")
        try:
            raise RuntimeError("out of memory")
        finally:
            longpole.shutdown(timeout_s=60.0)
        """,
        status=1,
    )
    assert read_status(receiver) == "crashed"


def test_shutdown_at_exit_after_a_crash_is_crashed(
    program: Program, receiver: FakeReceiver
) -> None:
    program.run(
        """
        import atexit
        longpole.init("run-1")
        atexit.register(longpole.shutdown, timeout_s=60.0)
        raise RuntimeError("out of memory")
        """,
        status=1,
    )
    assert read_status(receiver) == "crashed"


@pytest.mark.parametrize(
    ("code", "ended"), [("1", "crashed"), ("'no GPU'", "crashed"), ("0", "finished")]
)
def test_an_exit_with_a_status_out_of_a_step_is_a_crash(
    program: Program, receiver: FakeReceiver, code: str, ended: str
) -> None:
    program.run(
        f"""
        longpole.init("run-1")
        with longpole.step(1), longpole.stage("gen"):
            sys.exit({code})
        """,
        status=0 if code == "0" else 1,
    )
    assert read_status(receiver) == ended


def test_interrupt_is_no_crash(program: Program, receiver: FakeReceiver) -> None:
    program.run("longpole.init('run-1'); raise KeyboardInterrupt", status=-signal.SIGINT)
    assert read_status(receiver) == "finished"


def test_ranks_of_one_program_make_one_run(program: Program, receiver: FakeReceiver) -> None:
    for rank in ("1", "0"):
        program.run(
            """
            longpole.init("run-1")
            try:
                with longpole.step(1), longpole.stage("gen"):
                    pass
                longpole.log(1, {"rank": int(os.environ["RANK"])})
                if os.environ["RANK"] == "1":
                    raise RuntimeError("lost a peer")
            finally:
                longpole.shutdown(timeout_s=60.0)
            """,
            status=int(rank),
            RANK=rank,
            WORLD_SIZE="2",
        )
    (loop,) = receiver.spans("rl.loop")
    assert loop.resource["rl.role"] == "controller"
    follower, leader = receiver.spans("rl.sample")
    assert (follower.resource["rl.role"], leader.resource["rl.role"]) == ("trainer", "controller")
    assert leader.parent == loop.span_id
    assert [point.value for point in receiver.points("rank")] == [0]
    assert len(receiver.events("rl.run.start")) == 1
    assert read_status(receiver) == "finished"


def test_forked_child_of_a_rank_that_follows_does_so_too(
    program: Program, receiver: FakeReceiver
) -> None:
    result = program.run(
        """
        longpole.init("run-1")
        pid = os.fork()
        if pid == 0:
            with longpole.step(1), longpole.stage("reward"):
                longpole.log(1, {"child": 1})
            assert longpole.flush(60)
            print(longpole.stats().skipped["points"], flush=True)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        """,
        RANK="1",
        WORLD_SIZE="2",
    )
    assert result.stdout == "1\n"
    assert [span.name for span in receiver.spans()] == ["rl.reward"]
    assert receiver.points() == []


def test_said_status_wins(program: Program, receiver: FakeReceiver) -> None:
    program.run("longpole.init('run-1'); longpole.shutdown('crashed', timeout_s=60.0)")
    assert read_status(receiver) == "crashed"


def test_death_by_signal_sends_no_end(program: Program, receiver: FakeReceiver) -> None:
    program.run(
        """
        import signal
        longpole.init("run-1")
        with longpole.step(1):
            longpole.flush(60)
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        status=-9,
    )
    assert len(receiver.events("rl.run.start")) == 1
    assert receiver.events("rl.run.end") == []


def test_exit_with_a_dead_receiver_is_clean(tmp_path: Path, receiver: FakeReceiver) -> None:
    result = Program(receiver, tmp_path).run(
        """
        longpole.init("run-1", endpoint="http://127.0.0.1:1")
        with longpole.step(1):
            pass
        """
    )
    assert result.stderr.count("\n") == 1
    assert "no receiver at http://127.0.0.1:1" in result.stderr


def test_forked_child_sends_its_own_and_nothing_twice(
    program: Program, receiver: FakeReceiver
) -> None:
    result = program.run(
        """
        longpole.init("run-1")
        with longpole.step(1), longpole.stage("gen"):
            longpole.log(1, {"parent": 1})
            longpole.trajectory("parent", start_ns=1, end_ns=2)
            pid = os.fork()
            if pid == 0:
                quiet = threading.active_count()
                with longpole.stage("reward", step=1):
                    longpole.log(1, {"child": 1})
                    longpole.trajectory("child", start_ns=1, end_ns=2, step=1)
                assert longpole.flush(60)
                print(os.getpid(), quiet, threading.active_count())
            else:
                os.waitpid(pid, 0)
        if pid == 0:
            with longpole.step(2):
                pass
            longpole.flush(60)
            sys.stdout.flush()
            os._exit(0)
        """
    )
    child_pid, num_before, num_after = map(int, result.stdout.split())
    assert (num_before, num_after) == (1, 2)
    by_name = {span.name: span for span in receiver.spans() if span.name != "rl.trajectory"}
    assert len(receiver.spans()) == len({span.span_id for span in receiver.spans()}) == 6
    assert by_name["rl.reward"].resource["process.pid"] == child_pid
    assert by_name["rl.reward"].parent == ""
    assert "rl.role" not in by_name["rl.reward"].resource
    assert by_name["rl.sample"].resource["process.pid"] != child_pid
    assert by_name["rl.sample"].resource["rl.role"] == "controller"
    pids = [loop.resource["process.pid"] == child_pid for loop in receiver.spans("rl.loop")]
    assert sorted(pids) == [False, True]
    assert sorted(point.name for point in receiver.points()) == ["child", "parent"]
    assert {span.attributes["rl.trajectory.id"] for span in receiver.spans("rl.trajectory")} == {
        "parent",
        "child",
    }
    assert len(receiver.events("rl.run.start")) == 1
    assert read_status(receiver) == "finished"


def test_sending_imports_nothing(program: Program) -> None:
    # A fork while the sender's thread imports leaves a locked module behind in the child.
    result = program.run(
        """
        import longpole.session
        before = set(sys.modules)
        longpole.init("run-1")
        with longpole.step(1), longpole.stage("gen"):
            longpole.trajectory(start_ns=1, end_ns=2, parts=[("tool", "python", 1, 2)])
        longpole.log(1, {"a": 1})
        assert longpole.flush(60)
        print(sorted(set(sys.modules) - before))
        """
    )
    assert result.stdout == "[]\n"


def test_forks_under_load_do_not_hang(program: Program, receiver: FakeReceiver) -> None:
    program.run(
        """
        longpole.init("run-1")
        stop = threading.Event()
        def work():
            while not stop.is_set():
                with longpole.stage("gen", step=1):
                    longpole.log(1, {"parent": 1})
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(10):
            pid = os.fork()
            if pid == 0:
                longpole.log(1, {f"child/{number}": 1})
                os._exit(0 if longpole.flush(60) else 1)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        for thread in threads:
            thread.join()
        """
    )
    names = sorted(point.name for point in receiver.points() if point.name.startswith("child/"))
    assert names == [f"child/{number}" for number in range(10)]


def test_multiprocessing_children_send_before_they_leave(
    program: Program, receiver: FakeReceiver
) -> None:
    program.run(
        """
        import multiprocessing
        def forked():
            longpole.log(1, {"forked": 1})
        def spawned(fails):
            longpole.init("run-1", role="reward", instance=str(fails))
            longpole.log(1, {"spawned": 1})
            if fails:
                raise RuntimeError("boom")
        if __name__ == "__main__":
            longpole.init("run-1")
            fork, spawn = map(multiprocessing.get_context, ("fork", "spawn"))
            children = [
                fork.Process(target=forked),
                spawn.Process(target=spawned, args=(False,)),
                spawn.Process(target=spawned, args=(True,)),
                fork.Process(target=spawned, args=(True,)),
            ]
            for child in children:
                child.start()
            for child in children:
                child.join()
            assert [child.exitcode for child in children] == [0, 0, 1, 1]
        """
    )
    names = sorted(point.name for point in receiver.points())
    assert names == ["forked", "spawned", "spawned", "spawned"]
    assert len({point.resource["process.pid"] for point in receiver.points()}) == 4
    assert [event.resource["rl.role"] for event in receiver.events("rl.run.start")] == [
        "controller"
    ]
    assert read_status(receiver) == "finished"


@pytest.mark.parametrize(
    ("method", "ending", "exit_code", "status"),
    [
        ("spawn", "pass", 0, "finished"),
        ("spawn", "raise RuntimeError", 1, "crashed"),
        ("fork", "raise RuntimeError", 1, "crashed"),
        ("fork", "sys.exit(3)", 3, "crashed"),
        ("fork", "sys.exit(0)", 0, "finished"),
    ],
)
def test_multiprocessing_child_that_is_the_controller_ends_the_run(
    program: Program, receiver: FakeReceiver, method: str, ending: str, exit_code: int, status: str
) -> None:
    program.run(
        f"""
        import multiprocessing
        def train():
            longpole.init("run-1")
            {ending}
        if __name__ == "__main__":
            child = multiprocessing.get_context("{method}").Process(target=train)
            child.start()
            child.join()
            assert child.exitcode == {exit_code}
        """
    )
    assert read_status(receiver) == status


def test_same_seed_in_two_processes_gives_different_ids(
    program: Program, receiver: FakeReceiver
) -> None:
    for _ in range(2):
        program.run(
            """
            random.seed(0)
            longpole.init("run-1")
            with longpole.step(1):
                longpole.trajectory("t", start_ns=1, end_ns=2)
            """
        )
    spans = receiver.spans()
    assert len(spans) == 4
    assert len({span.trace_id for span in spans}) == len({span.span_id for span in spans}) == 4
