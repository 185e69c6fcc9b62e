import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from longpole_agent.sources.owners import ProcessOwners

UID = "0f6a2b1c-1111-2222-3333-444455556666"
POD_GROUP = (
    "0::/kubepods.slice/kubepods-burstable.slice/"
    f"kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-containerd-{'ab' * 32}.scope\n"
)


@contextmanager
def running(environment: dict[str, str]) -> Generator[int]:
    """A real process, which is up once it has said so."""
    child = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **environment},
    )
    assert child.stdout is not None
    child.stdout.readline()
    try:
        yield child.pid
    finally:
        child.communicate(b"\n")


def find_pod() -> dict[str, str]:
    """What this machine's control groups say of every process: tests may run in a pod."""
    owners = dict(ProcessOwners().find(os.getpid()))
    return {key: str(value) for key, value in owners.items() if key.startswith("k8s.")}


class FakeProc:
    """A directory like `/proc` with processes as a test describes them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, pid: int, start: int, environ: bytes | None, cgroup: str = "0::/\n") -> Path:
        directory = self.root / str(pid)
        directory.mkdir(exist_ok=True)
        fields = " ".join(["S", *("0" for _ in range(18)), str(start), "0"])
        (directory / "stat").write_text(f"{pid} (a (strange) name) {fields}\n")
        (directory / "cgroup").write_text(cgroup)
        if environ is not None:
            (directory / "environ").write_bytes(environ)
        return directory


def test_jobs_of_a_real_process() -> None:
    with running({"SLURM_JOB_ID": "4711", "RAY_JOB_ID": "01000000", "SECRET": "x"}) as pid:
        assert dict(ProcessOwners().find(pid)) == {
            "slurm.job.id": "4711",
            "ray.job.id": "01000000",
            **find_pod(),
        }


def test_a_real_process_of_no_job() -> None:
    with running({"SLURM_JOB_ID": "", "RAY_JOB_ID": ""}) as pid:
        assert dict(ProcessOwners().find(pid)) == find_pod()


def test_a_process_that_is_gone() -> None:
    with running({"SLURM_JOB_ID": "1"}) as pid:
        pass
    assert ProcessOwners().find(pid) == ()


def test_the_pod_and_the_job_of_control_groups(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    proc.write(1, 5, b"", POD_GROUP)
    proc.write(2, 5, None, "0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n")
    proc.write(3, 5, b"SLURM_JOB_ID=78\0", "4:memory:/slurm/uid_1000/job_77/step_batch\n")
    owners = ProcessOwners(tmp_path)
    assert dict(owners.find(1)) == {"k8s.pod.uid": UID}
    assert dict(owners.find(2)) == {"slurm.job.id": "77"}
    # What the process says of itself is newer.
    assert dict(owners.find(3)) == {"slurm.job.id": "78"}


def test_a_process_is_looked_up_once_and_its_successor_anew(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    directory = proc.write(9, 100, b"SLURM_JOB_ID=1\0")
    owners = ProcessOwners(tmp_path)
    assert dict(owners.find(9)) == {"slurm.job.id": "1"}
    (directory / "environ").write_bytes(b"SLURM_JOB_ID=2\0")
    assert dict(owners.find(9)) == {"slurm.job.id": "1"}
    proc.write(9, 101, b"SLURM_JOB_ID=2\0")
    assert dict(owners.find(9)) == {"slurm.job.id": "2"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of somebody else")
def test_a_real_process_of_somebody_else_as_nobody_sees_it() -> None:
    looking = (
        "import os, sys\n"
        "from longpole_agent.sources.owners import ProcessOwners\n"
        "os.setgid(65534), os.setuid(65534)\n"
        "owners = ProcessOwners()\n"
        "owners.find(1)\n"
        "print(dict(owners.find(int(sys.argv[1]))).get('slurm.job.id'))\n"
    )
    with running({"SLURM_JOB_ID": "1"}) as pid:
        done = subprocess.run(
            [sys.executable, "-c", looking, str(pid)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == "None\n"
    assert done.stderr.count("no permission to read") == 1


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8"}, 3),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, 2),
        # As verl starts its workers under Ray.
        ({"RANK": "0", "WORLD_SIZE": "1", "WG_PREFIX": "UnERSG", "RAY_RAYLET_PID": "7"}, 0),
        # A platform that counts nodes in the variables that a Ray worker inherits.
        ({"RANK": "1", "WORLD_SIZE": "4", "RAY_RAYLET_PID": "7"}, None),
        ({"RANK": "x", "WORLD_SIZE": "4"}, None),
    ],
)
def test_the_rank_of_a_process(tmp_path: Path, environ: dict[str, str], rank: int | None) -> None:
    entries = "\0".join(f"{name}={value}" for name, value in environ.items())
    FakeProc(tmp_path).write(4, 5, entries.encode())
    assert dict(ProcessOwners(tmp_path).find(4)).get("process.rank") == rank


def test_the_title_of_a_ray_worker_is_read_each_time(tmp_path: Path) -> None:
    directory = FakeProc(tmp_path).write(4, 5, b"RAY_JOB_ID=ffffffff\0")
    owners = ProcessOwners(tmp_path)
    for title in ("ray::WorkerDict.update_actor", "ray::WorkerDict"):
        (directory / "cmdline").write_bytes(title.encode() + b"   \0\0")
        assert owners.find(4) == (("process.title", title),)
    (directory / "cmdline").write_bytes(b"python\0train.py\0")
    assert owners.find(4) == ()
