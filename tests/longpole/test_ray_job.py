from pathlib import Path

from longpole.ray_job import find_ray_job

WORKER = {"RAY_JOB_ID": "01000000", "RAY_RAYLET_PID": "77"}


def make_root(root: Path, *arguments: str) -> Path:
    directory = root / "proc" / "77"
    directory.mkdir(parents=True)
    (directory / "cmdline").write_text("\0".join(("raylet", *arguments)) + "\0")
    return root


def test_the_session_makes_the_job_unique(tmp_path: Path) -> None:
    root = make_root(tmp_path, "--x", "--session-name=session_2026", "--y --session-name=other")
    assert find_ray_job(WORKER, root) == "ray/session_2026/01000000"


def test_nobody_s_worker_has_no_job(tmp_path: Path) -> None:
    root = make_root(tmp_path, "--session-name=s")
    assert find_ray_job({}, root) == ""
    assert find_ray_job({**WORKER, "RAY_JOB_ID": "ffffffff"}, root) == ""
    assert find_ray_job({**WORKER, "RAY_RAYLET_PID": "78"}, root) == ""
    assert find_ray_job({**WORKER, "RAY_RAYLET_PID": "../x"}, root) == ""


def test_a_raylet_that_names_no_session_gives_none(tmp_path: Path) -> None:
    assert find_ray_job(WORKER, make_root(tmp_path)) == ""
