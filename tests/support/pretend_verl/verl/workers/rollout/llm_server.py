class LLMServerClient:
    async def _acquire_server(self, request_id, **extra):
        return "10.0.0.7:31000", None

    def _vllm_request_id(self, request_id):
        return f"{request_id}-engine"

    async def generate(self, request_id, *, prompt_ids):
        await self._acquire_server(request_id, prompt_ids=prompt_ids)
        return self._vllm_request_id(request_id), list(range(len(prompt_ids) + 2))


class RolloutReplica:
    replica_rank = 3
    _server_address = "10.0.0.7:31000"


class LLMServerManager:
    def __init__(self):
        self.rollout_replicas = [RolloutReplica()]

    def get_client(self, client_cls=None, **kwargs):
        return (client_cls or LLMServerClient)()
