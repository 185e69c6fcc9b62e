"""A rollout engine for verl without a GPU: a server that generates with transformers."""

import ray
import torch
from verl.utils.tracking import RLInsightLogger
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

_FIRST_PORT = 18000
_MAX_NEW_TOKENS = 16
_UNUSED = (
    "wake_up",
    "sleep",
    "abort_all_requests",
    "resume_generation",
    "clear_kv_cache",
    "release_kv_cache",
    "resume_kv_cache",
    "start_profile",
    "stop_profile",
)


class CpuServer:
    def __init__(self, path, rank):
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        self.model = AutoModelForCausalLM.from_pretrained(path).eval()
        self.rank = rank
        self.version = None

    async def generate(self, request_id, prompt_ids, sampling_params, **_):
        lane = f"replica_{self.rank}"
        with RLInsightLogger.trace_state("hf_generate", state_lane_id=lane):
            wanted = sampling_params.get("max_tokens") or sampling_params.get("max_new_tokens")
            with torch.no_grad():
                output = self.model.generate(
                    torch.tensor([list(prompt_ids)]),
                    max_new_tokens=min(int(wanted or _MAX_NEW_TOKENS), _MAX_NEW_TOKENS),
                    do_sample=True,
                    temperature=max(1e-3, float(sampling_params.get("temperature", 1.0))),
                    top_k=0,
                    output_scores=True,
                    return_dict_in_generate=True,
                )
            ids = output.sequences[0, len(prompt_ids) :].tolist()
            log_probs = [
                torch.log_softmax(scores[0].float(), -1)[token].item()
                for scores, token in zip(output.scores, ids, strict=True)
            ]
        return TokenOutput(
            token_ids=ids,
            log_probs=log_probs,
            stop_reason="completed",
            extra_fields={"global_steps": self.version},
        )

    async def load(self, weights, version):
        floats = {name: tensor.float() for name, tensor in weights.items()}
        self.model.load_state_dict(floats, strict=False)
        self.version = version
        return len(weights)


async def _do_nothing(self, *_, **__):
    return None


for _name in _UNUSED:
    setattr(CpuServer, _name, _do_nothing)


class ServerAdapter(BaseRollout):
    replica_rank = 0
    is_leader_rank = True

    def __init__(self, config, model_config, device_mesh, **_):
        super().__init__(config, model_config, device_mesh)
        self.server = None

    async def resume(self, tags):
        pass

    async def release(self):
        pass

    @torch.no_grad()
    async def update_weights(self, weights, wire_format="named_tensors", global_steps=None, **_):
        copied = {name: tensor.detach().cpu().clone() for name, tensor in weights}
        self.server = self.server or ray.get_actor("cpu_server_0_0")
        await self.server.load.remote(copied, global_steps)


class CpuReplica(RolloutReplica):
    async def launch_servers(self):
        config = self.model_config
        path = config.get("path") if hasattr(config, "get") else config.path
        name = f"cpu_server_{self.replica_rank}_0"
        options = ray.remote(CpuServer).options(name=name, num_cpus=0, max_concurrency=8)
        self._server_handle = options.remote(path, self.replica_rank)
        self.servers = [self._server_handle]
        self._server_address = f"127.0.0.1:{_FIRST_PORT + self.replica_rank}"
