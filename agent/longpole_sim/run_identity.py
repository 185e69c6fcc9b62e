"""What every process of a simulated run says about it."""

from dataclasses import dataclass

from longpole_sim.samples import training_batch
from longpole_sim.workload import Run

SYSTEM, SYSTEM_VERSION = "verl", "0.9.0"
_ROLLOUT_CONCURRENCY_CAP = 256


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """A run, under the name it goes by, and which start of it this is."""

    run: Run
    run_id: str
    project: str
    attempt: int = 1


def describe_config(run: Run) -> dict[str, object]:
    """Return the settings that explain a verdict, as `rl.config.*` without the prefix."""
    scenario, cluster = run.scenario, run.cluster
    batch = training_batch(scenario, cluster, step=1)
    prompts = batch.groups_per_replica * len(cluster.replicas)
    return {
        "group_size": scenario.group_size,
        "train_batch_size": prompts,
        "ppo_mini_batch_size": max(1, prompts // scenario.mini_batches),
        "ppo_micro_batch_size_per_gpu": 1 if scenario.actor_mfu < 0.2 else 8,
        "use_dynamic_bsz": scenario.actor_mfu >= 0.2,
        "ppo_epochs": 1,
        "response_length_cap": scenario.response.cap,
        "prompt_length_cap": scenario.prompt.cap,
        "rollout_concurrency_cap": _ROLLOUT_CONCURRENCY_CAP,
        "sync_method": scenario.sync.method,
        "tensor_parallel_size": cluster.tensor_parallel_size,
        "data_parallel_size": cluster.gpu_count,
        "save_freq": scenario.checkpoint_every,
        "test_freq": scenario.validation_every,
        "simulated": True,
        "scenario": scenario.name,
        "seed": run.seed,
        "speed": run.speed,
    }
