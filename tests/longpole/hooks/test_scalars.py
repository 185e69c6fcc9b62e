"""Loggers with the names and signatures of the real ones, in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.sdk_receiver import FakeReceiver

MODULES = {
    "wandb/sdk/wandb_run.py": """
class Run:
    step = 7
    def log(self, data, step=None, commit=None):
        self.seen = data
""",
    "torch/utils/tensorboard/writer.py": """
class SummaryWriter:
    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None): pass
    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None): pass
""",
    "mlflow/tracking/client.py": """
class MlflowClient:
    def log_metric(self, run_id, key, value, timestamp=None, step=None): pass
    def log_batch(self, run_id, metrics=(), params=(), tags=()): pass
""",
    "swanlab/data/run/main.py": """
class SwanLabRun:
    def log(self, data, step=None):
        raise ValueError("the logger's own error passes")
""",
}
PROGRAM = """
from types import SimpleNamespace
import longpole
longpole.autolog()
longpole.autolog()
longpole.init("run")
{calls}
longpole.shutdown("finished", timeout_s=60.0)
"""


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (
            (
                "from wandb.sdk.wandb_run import Run\n"
                "Run().log({'a': 1.5, 'text': 'x'}, step=3)\n"
                "Run().log({'b': 2, 'train/global_step': 5})\n"
                "Run().log({'c': 4})\n"
                "Run().log(None)"
            ),
            {("a", 3, 1.5), ("b", 5, 2.0), ("train/global_step", 5, 5.0), ("c", 7, 4.0)},
        ),
        (
            (
                "from torch.utils.tensorboard.writer import SummaryWriter\n"
                "SummaryWriter().add_scalar('a/b', 1.0, 2)\n"
                "SummaryWriter().add_scalar('lost', 1.0)\n"
                "SummaryWriter().add_scalars('m', {'x': 3.0}, global_step=4)"
            ),
            {("a/b", 2, 1.0), ("m/x", 4, 3.0)},
        ),
        (
            (
                "from mlflow.tracking.client import MlflowClient\n"
                "MlflowClient().log_metric('r', 'a', 1.0, step=1)\n"
                "MlflowClient().log_batch('r', metrics="
                "[SimpleNamespace(key='b', value=2.0, step=2)])"
            ),
            {("a", 1, 1.0), ("b", 2, 2.0)},
        ),
        (
            (
                "from swanlab.data.run.main import SwanLabRun\n"
                "try:\n    SwanLabRun().log({'a': 1.0}, step=1)\n"
                "except ValueError:\n    longpole.log(9, {'passed': 1.0})"
            ),
            {("passed", 9, 1.0)},
        ),
    ],
    ids=["wandb", "tensorboard", "mlflow", "swanlab"],
)
def test_what_a_logger_is_told_is_recorded(
    tmp_path: Path, calls: str, expected: set[tuple[str, int, float]]
) -> None:
    for name, text in MODULES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
    with FakeReceiver() as receiver:
        subprocess.run(
            [sys.executable, "-c", PROGRAM.format(calls=calls)],
            check=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
                "LONGPOLE_ENDPOINT": receiver.endpoint,
            },
        )
        assert {
            (point.name, point.attributes["rl.loop.iteration"], point.value)
            for point in receiver.points()
        } == expected
