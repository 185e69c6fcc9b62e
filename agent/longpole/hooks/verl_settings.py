"""What a configuration of verl says about a run. Older ones lack some keys: those say nothing."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

# Settings that explain a verdict.
_SETTINGS = (
    "algorithm.adv_estimator",
    "algorithm.use_kl_in_reward",
    "algorithm.filter_groups.enable",
    "data.train_batch_size",
    "data.max_prompt_length",
    "data.max_response_length",
    "actor_rollout_ref.actor.strategy",
    "actor_rollout_ref.actor.ppo_epochs",
    "actor_rollout_ref.actor.ppo_mini_batch_size",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
    "actor_rollout_ref.actor.use_dynamic_bsz",
    "actor_rollout_ref.actor.fsdp_config.param_offload",
    "actor_rollout_ref.actor.fsdp_config.optimizer_offload",
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size",
    "actor_rollout_ref.actor.megatron.tensor_model_parallel_size",
    "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size",
    "actor_rollout_ref.actor.megatron.expert_model_parallel_size",
    "actor_rollout_ref.model.enable_gradient_checkpointing",
    "actor_rollout_ref.rollout.name",
    "actor_rollout_ref.rollout.n",
    "actor_rollout_ref.rollout.mode",
    "actor_rollout_ref.rollout.tensor_model_parallel_size",
    "actor_rollout_ref.rollout.gpu_memory_utilization",
    "actor_rollout_ref.rollout.max_num_seqs",
    "actor_rollout_ref.rollout.enforce_eager",
    "actor_rollout_ref.rollout.free_cache_engine",
    "actor_rollout_ref.rollout.agent.num_workers",
    "actor_rollout_ref.rollout.multi_turn.enable",
    "trainer.nnodes",
    "trainer.n_gpus_per_node",
    "trainer.save_freq",
    "trainer.test_freq",
    "trainer.balance_batch",
    "trainer.v1.trainer_mode",
)
_MODEL_PATH = "actor_rollout_ref.model.path"
_MODES = frozenset({"sync", "colocate_async", "separate_async"})


def read(config: object, path: str) -> Any:
    """Return the value at a dotted path of a configuration, None where there is none."""
    value: Any = config
    for key in path.split("."):
        try:
            value = value.get(key) if hasattr(value, "get") else getattr(value, key, None)
        except Exception:  # noqa: BLE001 - configurations of all kinds
            return None
        if value is None:
            return None
    return value


def read_settings(config: object) -> dict[str, object]:
    """Return the settings that explain a verdict."""
    values = {path: read(config, path) for path in _SETTINGS}
    return {
        path: value for path, value in values.items() if isinstance(value, str | bool | int | float)
    }


def find_mode(config: object) -> str | None:
    """Return the mode of the trainer, None where the configuration does not tell."""
    mode = read(config, "trainer.v1.trainer_mode")
    if read(config, "trainer.use_v1") and isinstance(mode, str) and mode in _MODES:
        return mode
    return None


def count_gpus(config: object) -> int | None:
    """Return the GPUs of all pools: the trainer's, and those of rollout alone."""
    total = 0
    for pool in ("trainer", "rollout", "actor_rollout_ref.rollout"):
        nodes, per_node = read(config, f"{pool}.nnodes"), read(config, f"{pool}.n_gpus_per_node")
        if isinstance(nodes, int) and isinstance(per_node, int) and nodes > 0:
            total += nodes * per_node
    return total or None


def describe_model(config: object) -> tuple[str | None, Mapping[str, object] | None]:
    """Return the model's name and its Hugging Face configuration, if this disk has it."""
    path = read(config, _MODEL_PATH)
    if not isinstance(path, str) or not path:
        return None, None
    name = path.rstrip("/")
    file = Path(path).expanduser() / "config.json"
    if not file.is_file():
        file = _find_in_cache(path)
    else:
        name = Path(name).name
    if file is None:
        return name, None
    try:
        document: object = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return name, None
    return name, cast("Mapping[str, object]", document) if isinstance(document, dict) else None


def _find_in_cache(path: str) -> Path | None:
    # verl has imported it by now, or the model does not come from a hub.
    hub = sys.modules.get("huggingface_hub")
    find = getattr(hub, "try_to_load_from_cache", None)
    if find is None:
        return None
    try:
        found = find(path, "config.json")
    except Exception:  # noqa: BLE001 - a path that is no name of a model
        return None
    return Path(found) if isinstance(found, str) else None


def find_version() -> str | None:
    """Return the version of verl in this process."""
    version = getattr(sys.modules.get("verl"), "__version__", None)
    return version if isinstance(version, str) else None
