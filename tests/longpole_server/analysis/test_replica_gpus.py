from dataclasses import replace

import pytest

from longpole_server.analysis.replica_gpus import find_replica_gpus, list_replica_processes
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import ProcessSeen

ENGINE = ProcessSeen("run", 1, "node-0", 7, "rollout", 0, instance="replica-0")
HELD = [
    RunGpu("run", 1, host, f"GPU-{host}-{index}-aaaaaaaa", index, "rollout", 0, None, "pid")
    for host in ("node-1", "node-0")
    for index in (1, 0)
]


def find(process: ProcessSeen, seen: tuple[str, ...] = ()) -> list[tuple[str, int]]:
    return [(gpu.host, gpu.gpu_index) for gpu in find_replica_gpus([process], HELD, seen)]


@pytest.mark.parametrize(
    ("gpu_ids", "found"),
    [
        (("GPU-node-0-1-aaaaaaaa",), [("node-0", 1)]),
        (("GPU-node-0-0-aa", "GPU-node-1-0-aa"), [("node-0", 0), ("node-1", 0)]),
        (("1",), [("node-0", 1)]),
        (("GPU-elsewhere-0",), []),
    ],
    ids=["uuid", "beginnings, two nodes", "index of its node", "not the run's"],
)
def test_a_replica_says_its_gpus(gpu_ids: tuple[str, ...], found: list[tuple[str, int]]) -> None:
    assert find(replace(ENGINE, gpu_ids=gpu_ids), ("GPU-node-1-1-aaaaaaaa",)) == found


def test_of_one_that_says_nothing_its_memory_speaks() -> None:
    assert find(ENGINE, ("GPU-node-0-1-aaaaaaaa", "GPU-of-another-run")) == [("node-0", 1)]
    assert find(ENGINE) == []


def test_a_replica_s_processes_bear_its_name_in_its_attempt() -> None:
    others = [replace(ENGINE, attempt=2), replace(ENGINE, instance="replica-1")]
    assert list_replica_processes("replica-0", 1, [*others, ENGINE]) == [ENGINE]
