"""Trains with what there is of verl; prints what verl itself saw: `train.py ROLE`."""

import asyncio
import json
import sys

import verl  # noqa: F401 - loads the plugin before all else, as verl does
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.utils.profiler import DistProfiler, marked_timer
from verl.utils.tracking import Tracking

CONFIG = {
    "trainer": {
        "project_name": "proj",
        "experiment_name": "ppo",
        "nnodes": 2,
        "n_gpus_per_node": 8,
        "use_v1": True,
        "v1": {"trainer_mode": "sync"},
    },
    "algorithm": {"adv_estimator": "grpo"},
    "data": {"train_batch_size": 4},
    "actor_rollout_ref": {"model": {"path": "none/at/all"}, "rollout": {"n": 2}},
}


class Trainer:
    def __init__(self):
        self.global_steps = 0
        self.logger = Tracking("proj", "ppo", ["console"], config=CONFIG)

    def fit(self):
        for self.global_steps in (1, 2):
            timing = {}
            with marked_timer("step", timing):
                with marked_timer("gen", timing, color="red"):
                    pass
                with marked_timer("update_actor", timing):
                    pass
            with marked_timer("testing", timing):
                pass
            scalars = {f"timing_s/{name}": seconds for name, seconds in timing.items()}
            self.logger.log({**scalars, "critic/score/mean": 0.5, "text": "x"}, self.global_steps)
        with marked_timer("step", {}):
            raise ValueError("out of memory")

    def fit_with_dynamic_sampling(self):
        """Generate until enough groups are left: each time is a step's timer of its own."""
        self.global_steps = 1
        timing = {}
        for num_batches in (1, 2, 3):
            with marked_timer("step", timing):
                with marked_timer("gen", timing, color="red"):
                    pass
                if num_batches < 3:
                    continue
                with marked_timer("update_actor", timing):
                    pass
        scalars = {f"timing_s/{name}": seconds for name, seconds in timing.items()}
        self.logger.log({**scalars, "train/num_gen_batches": 3}, self.global_steps)


class ActorRolloutRefWorker:
    role = "actor_rollout"

    @DistProfiler.annotate(color="red", role="actor_update")
    def update(self, value):
        return value + 1


def main(role):
    if role == "worker":
        print(json.dumps(ActorRolloutRefWorker().update(1)))
        return
    if role == "agent_loop":
        worker = AgentLoopWorker(CONFIG)
        outputs = asyncio.run(worker.generate_sequences([(1, 0, 0), (1, 0, 1), (1, 9, 0)]))
        print(json.dumps([getattr(output, "reward_score", repr(output)) for output in outputs]))
        return
    trainer = Trainer()
    if role == "dynamic_sampling":
        trainer.fit_with_dynamic_sampling()
        trainer.logger.finish(exit_code=0)
        print(json.dumps(trainer.logger.logged))
        return
    try:
        trainer.fit()
    except ValueError as error:
        print(json.dumps([str(error), len(trainer.logger.logged)]))
        trainer.logger.finish(exit_code=1)


main(sys.argv[1])
