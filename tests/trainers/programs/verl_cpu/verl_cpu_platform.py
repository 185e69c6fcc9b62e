"""Lets verl 0.9 train on a machine without an accelerator: a platform, and a rollout of its own.

Loaded through the entry point `verl.plugins`. Everything else of the training is verl's.
"""

import contextlib
import types

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

_ZEROS = frozenset(
    {
        "max_memory_allocated",
        "max_memory_reserved",
        "memory_allocated",
        "memory_reserved",
        "current_device",
    }
)


class _Device(types.ModuleType):
    """Stands for `torch.cuda`: what `torch.cpu` has, and harmless answers to the rest."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if hasattr(torch.cpu, name):
            return getattr(torch.cpu, name)
        if name in _ZEROS:
            return lambda *_, **__: 0
        if name == "mem_get_info":
            return lambda *_, **__: (1 << 30, 1 << 31)
        if name == "get_device_name":
            return lambda *_, **__: "cpu"
        if name == "get_rng_state":
            return lambda *_, **__: torch.get_rng_state()
        if name == "set_rng_state":
            return lambda state, *_, **__: torch.set_rng_state(state)
        return lambda *_, **__: None


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _Device("verl_cpu_device")

    def is_available(self):
        return True

    def is_platform_available(self, use_smi_check=False):
        return True

    def current_device(self):
        return torch.device("cpu")

    def device_count(self):
        return 1

    def set_device(self, index):
        pass

    def synchronize(self, index=None):
        pass

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    def manual_seed_all(self, seed):
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings):
        pass

    def empty_cache(self):
        pass

    def get_device_capability(self, index=0):
        return None, None

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    @contextlib.contextmanager
    def nvtx_range(self, message):
        yield

    def profiler_start(self):
        pass

    def profiler_stop(self):
        pass

    def ray_resource_name(self):
        return "GPU"

    def ray_noset_envvars(self):
        return []

    def ray_resource_options(self, count):
        return {"num_gpus": count}

    def is_ipc_supported(self):
        return False

    def cudart(self):
        return None


def _name_backend_once():
    """`cpu:gloo,cpu:gloo`, which verl asks for here, is refused by torch."""
    distributed = torch.distributed
    init_process_group = distributed.init_process_group

    def init(backend=None, *args, **kwargs):
        if isinstance(backend, str) and backend.startswith("cpu:gloo"):
            backend = "gloo"
        return init_process_group(backend, *args, **kwargs)

    distributed.init_process_group = init
    distributed.distributed_c10d.init_process_group = init


def _register_rollout():
    from verl.workers.rollout import base
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    def load():
        from verl_cpu_rollout import CpuReplica

        return CpuReplica

    base._ROLLOUT_REGISTRY["cpu_hf", "async"] = "verl_cpu_rollout.ServerAdapter"
    RolloutReplicaRegistry.register("cpu_hf", load)


_name_backend_once()
_register_rollout()
