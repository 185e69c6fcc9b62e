class LLMServerClient:
    def _vllm_request_id(self, request_id):
        return f"{request_id}-engine"

    async def generate(self, request_id, *, prompt_ids):
        return self._vllm_request_id(request_id), list(range(len(prompt_ids) + 2))
