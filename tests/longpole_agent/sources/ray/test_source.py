import json
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from longpole_agent.sources.pages import PageError
from longpole_agent.sources.ray.lanes import TitleLane
from longpole_agent.sources.ray.processes import ProcessTable, Worker
from longpole_agent.sources.ray.source import RaySource
from longpole_agent.sources.source import Point
from support.ray_node import SESSION, RayNode

DATA = Path(__file__).parent / "data"
PAGE = (DATA / "metrics_2.60.txt").read_text("utf-8")
JOB = {"RAY_JOB_ID": "01000000", "RAY_RAYLET_PID": "7"}
NO_JOB = {"RAY_JOB_ID": "ffffffff", "RAY_RAYLET_PID": "7"}
S = 1_000_000_000
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Bench:
    """A source over a node of a test, with what it sent."""

    def __init__(
        self,
        root: Path,
        static_pages: Sequence[str] = (),
        scan_every_s: float = 10.0,
        hold_lanes_s: float = 0.0,
    ) -> None:
        self.node = RayNode(root)
        self.pages: dict[str, str] = {}
        self.num_fetched = 0
        self.lanes: list[TitleLane] = []
        self.source = RaySource(
            ProcessTable(self.node.proc),
            self._fetch,
            self.lanes.extend,
            static_pages,
            scan_every_s,
            hold_lanes_s,
        )

    def sample(self, at_s: float) -> Sequence[Point]:
        return self.source.sample(1_000_000 * S + round(at_s * S))

    def told(self) -> list[tuple[int, str, float, float]]:
        """Windows of titles, in seconds since the first look."""
        begin = 1_000_000 * S
        return [
            (lane.pid, lane.title, (lane.start_ns - begin) / S, (lane.end_ns - begin) / S)
            for lane in self.lanes
        ]

    def _fetch(self, target: str) -> str:
        self.num_fetched += 1
        if target not in self.pages:
            raise PageError("connection refused")
        return self.pages[target]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def values(points: Iterable[Point], prefix: str) -> Mapping[str, float | None]:
    return {point.metric: point.value for point in points if point.metric.startswith(prefix)}


def memory(points: Iterable[Point]) -> list[tuple[object, object, float | None]]:
    found: list[tuple[object, object, float | None]] = []
    for point in points:
        if point.metric == "process.memory.private":
            labels = dict(point.attributes)
            found.append((labels["process.pid"], labels["process.title"], point.value))
    return found


@pytest.mark.parametrize("how", ["given", "written", "older"])
def test_the_object_store_of_a_raylets_page(bench: Bench, how: str) -> None:
    bench.node.add_raylet(
        7, 8080 if how == "given" else None, written_port=8080 if how == "written" else 0
    )
    if how == "older":
        bench.node.write_old_ports(7, 8080)
    bench.pages["127.0.0.1:8080"] = PAGE
    found = values(bench.sample(0), "ray.")
    assert found["ray.object_store.spilled"] == 419_440_560
    assert found["ray.object_store.limit"] == 104_857_600
    assert bench.sample(5) == [], "every ten seconds"
    assert values(bench.sample(10), "ray.")


def test_two_raylets_of_a_node_add_up(bench: Bench) -> None:
    for pid, port in ((7, 8080), (8, 8081)):
        bench.node.add_raylet(pid, port)
        bench.pages[f"127.0.0.1:{port}"] = PAGE
    assert values(bench.sample(0), "ray.")["ray.object_store.spilled"] == 2 * 419_440_560


def test_a_page_that_cannot_be_had_is_said_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.node.add_raylet(7, 8080)
    for at_s in range(0, 100, 10):
        assert values(bench.sample(at_s), "ray.") == {}
    assert caplog.text.count("cannot be read: connection refused") == 1


def test_phases_of_skyrls_trainer_are_windows(bench: Bench) -> None:
    bench.node.add_raylet(7, 8080)
    bench.node.add_worker(20, "ray::skyrl_entrypoint", JOB)
    phases = ("wait_for_generation_buffer", "sync_weights", "run_training")
    for index, now in enumerate((*phases, "none")):
        bench.pages["127.0.0.1:8080"] = "".join(
            f'ray_skyrl_training_phase{{phase="{phase}",WorkerId="aa"}} {float(phase == now)}\n'
            for phase in phases
        )
        bench.sample(10 * index)
    # What training holds is not told apart: no stage.
    assert bench.told() == [
        (0, "ray::SkyRL.wait_for_generation_buffer", 0, 10),
        (0, "ray::SkyRL.sync_weights", 10, 20),
    ]
    assert {lane.job.rpartition("/")[2] for lane in bench.lanes} == {"01000000"}


def test_what_workers_hold_for_themselves(bench: Bench) -> None:
    bench.node.add_raylet(7)
    bench.node.add_worker(20, "ray::TaskRunner.run", JOB, private_pages=1000)
    bench.node.add_worker(21, "ray::WorkerDict.actor_rollout_update_actor", JOB, 5000)
    bench.node.add_worker(22, "ray::IDLE", NO_JOB, 9000)
    bench.node.add_other(23, "python", "train.py")
    points = bench.sample(0)
    assert memory(points) == [
        (21, "ray::WorkerDict", 5000 * PAGE_BYTES),
        (20, "ray::TaskRunner", 1000 * PAGE_BYTES),
    ]
    assert all(dict(point.attributes)["ray.job.id"] == "01000000" for point in points)


def test_where_no_process_can_be_seen_the_page_tells_what_they_hold(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ["10.0.0.5:8080"])
    bench.pages["10.0.0.5:8080"] = PAGE
    found = memory(bench.sample(0))
    assert (0, "ray::TaskRunner") in [(pid, title) for pid, title, _ in found]


def test_a_node_without_ray_is_looked_at_once_a_minute(bench: Bench) -> None:
    bench.node.add_other(5, "bash")
    assert bench.sample(0) == []
    bench.node.add_raylet(7, 8080)
    bench.pages["127.0.0.1:8080"] = PAGE
    assert not any(bench.sample(at_s) for at_s in range(1, 60))
    assert bench.sample(60)


def test_windows_of_titles_are_lanes(bench: Bench) -> None:
    bench.node.add_raylet(7)
    bench.node.add_worker(20, "ray::WorkerDict.actor_rollout_generate_sequences", JOB)
    bench.node.add_worker(21, "ray::TaskRunner.run", JOB)
    for at_s in range(5):
        bench.sample(at_s)
    bench.node.retitle(20, "ray::WorkerDict.actor_rollout_update_actor")
    for at_s in range(5, 9):
        bench.sample(at_s)
    bench.node.retitle(20, "ray::WorkerDict")
    bench.sample(9)
    assert bench.told() == [
        (20, "ray::WorkerDict.actor_rollout_generate_sequences", 0, 5),
        (20, "ray::WorkerDict.actor_rollout_update_actor", 5, 9),
    ]
    assert {lane.job for lane in bench.lanes} == {f"ray/{SESSION}/01000000"}


def test_a_worker_that_ends_ends_its_window(bench: Bench) -> None:
    bench.node.add_raylet(7)
    bench.node.add_worker(20, "ray::WorkerDict.actor_rollout_update_actor", JOB)
    bench.sample(0)
    bench.node.end(20)
    bench.sample(1)
    bench.sample(2)
    assert [window[2:] for window in bench.told()] == [(0, 1)]


def test_workers_that_were_there_before_the_job_belong_to_the_only_one(bench: Bench) -> None:
    bench.node.add_raylet(7)
    bench.node.add_worker(20, "ray::WorkerDict.actor_rollout_update_actor", NO_JOB)
    bench.node.add_worker(21, "ray::TaskRunner.run", JOB)
    bench.sample(0)
    bench.node.retitle(20, "ray::WorkerDict")
    bench.sample(1)
    assert [lane.job for lane in bench.lanes] == [f"ray/{SESSION}/01000000"]


def test_windows_are_held_until_a_process_would_have_told_of_itself(tmp_path: Path) -> None:
    bench = Bench(tmp_path, hold_lanes_s=10.0)
    bench.node.add_raylet(7)
    bench.node.add_worker(20, "ray::WorkerDict.actor_rollout_update_actor", JOB)
    bench.sample(0)
    bench.node.retitle(20, "ray::WorkerDict.actor_rollout_compute_log_prob")
    bench.sample(1)
    bench.node.retitle(20, "ray::WorkerDict")
    bench.sample(2)
    assert bench.lanes == []
    bench.sample(11)
    assert [end for *_, end in bench.told()] == [1.0]
    bench.source.close()
    assert [end for *_, end in bench.told()] == [1.0, 2.0]


def test_a_worker_of_nobody_knows_which_job_is_no_lane(bench: Bench) -> None:
    bench.node.add_raylet(7)
    bench.node.add_worker(20, "ray::WorkerDict.actor_rollout_update_actor", NO_JOB)
    bench.node.add_worker(21, "ray::TaskRunner.run", JOB)
    bench.node.add_worker(22, "ray::TaskRunner.run", {**JOB, "RAY_JOB_ID": "02000000"})
    bench.sample(0)
    bench.node.end(20)
    bench.sample(1)
    assert bench.lanes == []


def test_the_titles_of_a_real_training_are_its_stages(tmp_path: Path) -> None:
    """verl 0.9 on Ray 2.60, one worker, three steps on a CPU, looked at five times a second."""
    bench = Bench(tmp_path, scan_every_s=0.01)
    bench.node.add_raylet(7)
    rows = [json.loads(line) for line in (DATA / "verl_titles.jsonl").read_text().splitlines()]
    seen: set[int] = set()
    for at_s, changes in groupby(rows, key=lambda row: row[0]):
        for _, pid, title, environ in changes:
            if pid in seen:
                bench.node.retitle(pid, title)
            else:
                bench.node.add_worker(pid, title, environ)
                seen.add(pid)
        bench.sample(at_s)
    stages = [title.rpartition(".")[2] for _, title, _, _ in bench.told()]
    assert stages == [
        "generate",
        "actor_rollout_compute_log_prob",
        "actor_rollout_update_actor",
        "generate",
        "actor_rollout_compute_log_prob",
        "actor_rollout_update_actor",
        "actor_rollout_update_actor",
    ], "the third step was too short to be seen whole"
    assert {lane.job for lane in bench.lanes} == {f"ray/{SESSION}/01000000"}


def test_a_process_number_that_is_used_again_is_found_within_a_minute(tmp_path: Path) -> None:
    node = RayNode(tmp_path)
    table = ProcessTable(node.proc)
    node.add_other(20, "bash")
    assert table.scan().workers == ()
    node.end(20)
    node.add_worker(20, "ray::TaskRunner.run", {})
    assert table.scan().workers == ()
    assert table.scan(anew=True).workers == (Worker(20, "ray::TaskRunner.run", ""),)


def test_a_worker_without_a_title_yet_is_looked_at_again(tmp_path: Path) -> None:
    node = RayNode(tmp_path)
    table = ProcessTable(node.proc)
    node.add_other(20, "python", "/env/ray/_private/workers/default_worker.py", "--x")
    assert table.scan().workers == ()
    node.retitle(20, "ray::IDLE")
    assert [worker.title for worker in table.scan().workers] == ["ray::IDLE"]
