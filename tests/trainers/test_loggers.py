"""Real loggers without a line of ours: what they are told is recorded, and their files are read."""

import os
import subprocess
from pathlib import Path

import pytest

from longpole_server.importers import LogSource, import_facts
from support.sdk_receiver import FakeReceiver
from support.trainers import PROGRAMS

pytestmark = [pytest.mark.integration, pytest.mark.trainer("loggers"), pytest.mark.timeout(300)]

STEPS = {
    (name, step, value)
    for step in (1, 2, 3)
    for name, value in (
        ("critic/score/mean", 0.5),
        ("timing_s/gen", 40.0 + step),
        ("timing_s/step", 66.0 + step),
    )
}


def record(python: str, logger: str, directory: Path, **variables: str) -> FakeReceiver:
    """Run a logger's program; return who took what was recorded."""
    home = directory / "home"
    home.mkdir()
    own = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with FakeReceiver() as receiver:
        completed = subprocess.run(
            [python, str(PROGRAMS / "loggers.py"), logger, str(directory)],
            cwd=directory,
            env={
                **own,
                "HOME": str(home),
                "LONGPOLE_ENDPOINT": receiver.endpoint,
                "WANDB_SILENT": "true",
                "TRACKIO_SHOW_DASHBOARD": "0",
                **variables,
            },
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=250,
        )
        assert completed.returncode == 0, completed.stdout[-3000:]
    return receiver


def read_points(receiver: FakeReceiver) -> set[tuple[str, int, float]]:
    points = receiver.points()
    assert {point.resource.get("rl.run.id") for point in points} == {"proj/ppo"}
    assert [event.name for event in receiver.events()] == ["rl.run.start", "rl.run.end"]
    return {
        (point.name, point.attributes["rl.loop.iteration"], point.value)
        for point in points
        if point.name not in {"late", "train/global_step"}
    }


def read_seconds(path: Path) -> list[tuple[int, float | None]]:
    facts = import_facts(LogSource.of_file(path), "x")
    return [(fact.step.step, fact.step.duration_s) for fact in facts.steps]


@pytest.mark.parametrize(
    ("logger", "file"),
    [
        ("wandb", "wandb/offline-run-*"),
        ("tensorboardx", "proj/ppo"),
        ("mlflow", "mlruns/*/*/metrics/.."),
        ("swanlab", "run-*"),
        # Its database is not read.
        ("trackio", ""),
    ],
    ids=["wandb", "tensorboardx", "mlflow", "swanlab", "trackio"],
)
def test_what_a_logger_is_told_is_recorded_and_its_file_says_the_same(
    trainer_python: str, tmp_path: Path, logger: str, file: str
) -> None:
    receiver = record(trainer_python, logger, tmp_path, LONGPOLE_AUTOLOG="1")
    assert read_points(receiver) == STEPS
    late = [point for point in receiver.points() if point.name == "late"]
    if logger in {"wandb", "mlflow"}:
        assert [point.attributes["rl.loop.iteration"] for point in late] == [1, 2, 3]
    if file:
        (path,) = tmp_path.glob(file)
        assert read_seconds(path.resolve()) == [(1, 67.0), (2, 68.0), (3, 69.0)]


@pytest.mark.trainer("verl")
def test_torchs_writer_is_recorded_where_code_asks_for_it(
    trainer_python: str, tmp_path: Path
) -> None:
    assert read_points(record(trainer_python, "torch", tmp_path)) == STEPS
    assert read_seconds(tmp_path / "proj" / "ppo") == [(1, 67.0), (2, 68.0), (3, 69.0)]
