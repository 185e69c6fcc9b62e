"""Logs three steps with a logger as trainers call it: `loggers.py LOGGER DIRECTORY`."""

import os
import sys
from pathlib import Path


def rows():
    for step in (1, 2, 3):
        yield (
            step,
            {"critic/score/mean": 0.5, "timing_s/gen": 40.0 + step, "timing_s/step": 66.0 + step},
        )


def log_wandb(directory):
    import wandb

    run = wandb.init(project="proj", name="ppo", mode="offline", dir=directory)
    for step, scalars in rows():
        # As verl does, and as those do that leave the count to wandb.
        wandb.log({**scalars, "text": "x"}, step=step)
        run.log({"late": 1.0, "train/global_step": step})
    run.finish()


def log_tensorboardx(directory):
    from tensorboardX import SummaryWriter

    with SummaryWriter(str(directory / "proj" / "ppo")) as writer:
        for step, scalars in rows():
            for name, value in scalars.items():
                writer.add_scalar(name, value, step)


def log_torch(directory):
    import torch
    from torch.utils.tensorboard import SummaryWriter

    import longpole

    longpole.autolog()
    longpole.init(project="proj", name="ppo")
    with SummaryWriter(str(directory / "proj" / "ppo")) as writer:
        for step, scalars in rows():
            for name, value in scalars.items():
                writer.add_scalar(tag=name, scalar_value=torch.tensor(value), global_step=step)


def log_mlflow(directory):
    # A database is the default of new versions; folders are what can be read as files.
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow

    mlflow.set_tracking_uri((directory / "mlruns").as_uri())
    mlflow.set_experiment("proj")
    with mlflow.start_run(run_name="ppo"):
        for step, scalars in rows():
            mlflow.log_metrics(scalars, step=step)
            mlflow.log_metric("late", 1.0, step=step)


def log_swanlab(directory):
    import swanlab

    swanlab.init(project="proj", experiment_name="ppo", mode="offline", logdir=str(directory))
    for step, scalars in rows():
        swanlab.log(scalars, step=step)
    swanlab.finish()


def log_trackio(directory):
    os.environ["TRACKIO_DIR"] = str(directory)
    import trackio

    trackio.init(project="proj", name="ppo")
    for step, scalars in rows():
        trackio.log(scalars, step=step)
    trackio.finish()


globals()[f"log_{sys.argv[1]}"](Path(sys.argv[2]))
