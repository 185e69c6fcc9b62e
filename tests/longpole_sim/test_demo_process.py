"""The demo as a person runs it: real trainer, workers and agents; only the server is a fake."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from longpole.conventions import attributes as names
from longpole_sim import Cluster, make_run, plan_run
from longpole_sim.engine_series import COUNTERS, GAUGES
from support.sim_fake_server import FakeServer, run_fake_server

pytestmark = pytest.mark.integration

RUN_ID = "team/demo"
CLUSTER = Cluster(nodes=2, gpus_per_node=2, tag=RUN_ID)
PATIENCE_S = 180.0


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with run_fake_server() as running:
        yield running


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


@contextmanager
def run_demo(server: FakeServer, folder: Path, *arguments: str) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "longpole.cli", "demo", "--server", server.address]
    command += ["--nodes", "2", "--gpus", "2", "--run-id", RUN_ID, *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "LONGPOLE_HEARTBEAT_S": "0.2", "TMPDIR": str(folder)},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def list_descendants(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def assert_all_end(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE_S)
    assert not alive


def test_a_run_arrives_as_planned(server: FakeServer, tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    arguments = ("--steps", "2", "--speed", "5", "--seed", "3", "--once-ready-file", str(ready))
    with run_demo(server, tmp_path, *arguments) as process:
        said, complaints = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, complaints) == (0, "")
    url = f"{server.address}/run?id=team%2Fdemo"
    assert said.splitlines()[0] == f"run {RUN_ID}: {url}"
    assert [line.split()[:2] for line in said.splitlines()[1:]] == [["step", "1"], ["step", "2"]]
    assert json.loads(ready.read_text()) == {"run_id": RUN_ID, "url": url, "pid": process.pid}
    check_against_plan(server)
    check_gpus(server)
    check_engines(server)
    check_requests(server)


def check_against_plan(server: FakeServer) -> None:
    plans = list(plan_run(make_run("long_tail", 3, cluster=CLUSTER, speed=5.0), 2))
    received = server.received
    loops = {span.attributes[names.ITERATION]: span for span in received.named("rl.loop")}
    gens = {span.attributes[names.ITERATION]: span for span in received.named("rl.sample")}
    assert sorted(loops) == [1, 2]
    for plan in plans:
        loop, gen = loops[plan.step], gens[plan.step]
        assert loop.end_ns - loop.start_ns >= plan.duration_s * 1e9
        assert loop.attributes[names.TOKENS_TOTAL] == sum(plan.sequence_lengths)
        samples = [
            span
            for span in received.named("rl.trajectory")
            if span.attributes[names.ITERATION] == plan.step
        ]
        assert {span.attributes[names.TRAJECTORY_ID] for span in samples} == {
            item.trajectory_id for item in plan.trajectories
        }
        assert all(gen.start_ns <= span.start_ns <= span.end_ns <= gen.end_ns for span in samples)
        assert {span.resource[names.HOST_NAME] for span in samples} == {"sim-node-0", "sim-node-1"}
    phases = [span.name for span in received.spans if span.name.startswith("rl.sync.")]
    assert len(phases) == 14
    assert [
        event.attributes[names.EVENT_STATUS] for event in received.events_named("rl.run.end")
    ] == ["finished"]
    points = {
        (point.attributes[names.ITERATION], point.name)
        for point in received.points
        if names.ITERATION in point.attributes
    }
    assert {(1, "timing_s/gen"), (2, "perf/mfu/actor"), (2, "timing_s/step")} <= points


def check_engines(server: FakeServer) -> None:
    readings = [point for point in server.received.points if point.name.startswith("vllm:")]
    assert {point.name for point in readings} == {*GAUGES, *COUNTERS}
    replicas = {point.attributes[names.SERVICE_INSTANCE_ID] for point in readings}
    assert replicas == {replica.name for replica in CLUSTER.replicas}
    assert {point.resource[names.RUN_ID] for point in readings} == {RUN_ID}


def check_requests(server: FakeServer) -> None:
    """Engines tell of every turn, with the halves of its time and the GPUs of their replica."""
    plans = plan_run(make_run("long_tail", 3, cluster=CLUSTER, speed=5.0), 2)
    turns = {item.trajectory_id: item.turns for plan in plans for item in plan.trajectories}
    requests = server.received.named("llm_request")
    assert Counter(span.attributes[names.REQUEST_ID] for span in requests) == turns
    gpus = {
        replica.name: tuple(CLUSTER.gpu_uuid(gpu) for gpu in replica.gpus)
        for replica in CLUSTER.replicas
    }
    for span in requests:
        assert span.resource[names.GPU_IDS] == gpus[str(span.resource[names.SERVICE_INSTANCE_ID])]
        first_s = span.attributes["gen_ai.latency.time_to_first_token"]
        assert isinstance(first_s, float)
        assert 0 <= first_s * 1e9 < span.end_ns - span.start_ns


def check_gpus(server: FakeServer) -> None:
    ids = {*CLUSTER.node_gpu_uuids(0), *CLUSTER.node_gpu_uuids(1)}
    sampled = {
        point.attributes["hw.id"] for point in server.received.points if point.name == "hw.power"
    }
    assert sampled == ids
    announced = {span.resource[names.GPU_IDS] for span in server.received.named("rl.trajectory")}
    assert announced == {CLUSTER.node_gpu_uuids(0), CLUSTER.node_gpu_uuids(1)}


def test_pools_of_their_own_are_reported_by_processes_of_their_own(
    server: FakeServer, tmp_path: Path
) -> None:
    arguments = ("--steps", "2", "--speed", "5", "--scenario", "async_long_tail")
    with run_demo(server, tmp_path, *arguments) as process:
        _, complaints = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, complaints) == (0, "")
    run = make_run("async_long_tail", 0, cluster=CLUSTER, speed=5.0)
    received = server.received
    gpus_of_role = {
        str(span.resource[names.ROLE]): span.resource.get(names.GPU_IDS) for span in received.spans
    }
    assert set(gpus_of_role) == {"controller", "trainer", "rollout"}
    trainer_ids = tuple(run.cluster.gpu_uuid(gpu) for gpu in run.cluster.trainer_gpus)
    assert gpus_of_role["trainer"] == trainer_ids
    rollout_ids = gpus_of_role["rollout"]
    assert isinstance(rollout_ids, tuple)
    assert not set(trainer_ids) & set(rollout_ids)
    assert {span.resource[names.MODE] for span in received.named("rl.loop")} == {"separate_async"}
    samples = received.named("rl.trajectory")
    for plan in plan_run(run, 2):
        sent = {
            span.attributes[names.TRAJECTORY_ID]
            for span in samples
            if span.attributes[names.ITERATION] == plan.step
        }
        assert sent == {item.trajectory_id for item in plan.trajectories}


def test_ctrl_c_ends_everything_and_half_a_step_is_not_reported(
    server: FakeServer, tmp_path: Path
) -> None:
    with run_demo(server, tmp_path, "--speed", "4") as process:
        wait_until(lambda: len(server.received.named("rl.loop")) >= 1)
        children = list_descendants(process)
        assert len(children) >= 5  # trainer, two workers, two agents
        # A terminal sends the signal to the whole group.
        os.killpg(process.pid, signal.SIGINT)
        _, complaints = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, complaints) == (0, "")
    assert_all_end(children)
    statuses = server.received.events_named("rl.run.end")
    assert [event.attributes[names.EVENT_STATUS] for event in statuses] == ["finished"]
    for loop in server.received.named("rl.loop"):
        stages = {
            span.attributes.get("rl.stage")
            for span in server.received.spans
            if span.attributes.get(names.ITERATION) == loop.attributes[names.ITERATION]
        }
        assert "update_weights" in stages


def test_when_the_demo_is_killed_nothing_is_left_behind(server: FakeServer, tmp_path: Path) -> None:
    with run_demo(server, tmp_path, "--speed", "4") as process:
        wait_until(lambda: server.received.named("rl.trajectory"))
        children = list_descendants(process)
        process.kill()
        process.communicate()
    assert_all_end(children)


def test_a_hang_goes_on_announcing_its_stage(server: FakeServer, tmp_path: Path) -> None:
    def hanging() -> int:
        return sum(
            event.attributes.get("rl.stage") == "update_actor"
            and event.attributes.get(names.ITERATION) == 6
            for event in server.received.events_named("rl.stage.start")
        )

    with run_demo(server, tmp_path, "--scenario", "hang", "--speed", "20") as process:
        wait_until(lambda: hanging() >= 5)
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    loops = server.received.named("rl.loop")
    assert [span.attributes[names.ITERATION] for span in loops] == [1, 2, 3, 4, 5]


def test_after_a_crash_a_second_attempt_resumes(server: FakeServer, tmp_path: Path) -> None:
    with run_demo(
        server, tmp_path, "--scenario", "resume", "--speed", "20", "--steps", "8"
    ) as process:
        said, complaints = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, complaints) == (0, "")
    assert "the trainer crashed; attempt 2 resumes with step 6" in said
    loops = [
        (span.resource[names.RUN_ATTEMPT], span.attributes[names.ITERATION])
        for span in server.received.named("rl.loop")
    ]
    # The last step before a crash may die in the trainer's buffers with it.
    assert [step for attempt, step in loops if attempt == 1 and step != 6] == [1, 2, 3, 4, 5]
    assert [step for attempt, step in loops if attempt == 2] == [6, 7, 8]
    ends = server.received.events_named("rl.run.end")
    assert [event.resource[names.RUN_ATTEMPT] for event in ends] == [2]


def test_an_agent_that_cannot_run_is_one_clear_line(server: FakeServer, tmp_path: Path) -> None:
    missing = tmp_path / "no such token"
    with run_demo(server, tmp_path, "--token-file", str(missing)) as process:
        _, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert re.match(r"longpole demo: the agent of sim-node-\d ended with status 2: ", complaints)
    assert "no such token" in complaints
    assert len(complaints.splitlines()) == 1
