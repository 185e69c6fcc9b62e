import asyncio
import pickle
from types import SimpleNamespace

from verl.utils.profiler import simple_timer
from verl.workers.rollout.llm_server import LLMServerManager


class AgentLoopWorker:
    def __init__(self, config):
        self.config = config
        # It comes from the controller's process.
        self.client = pickle.loads(pickle.dumps(LLMServerManager().get_client()))

    async def generate_sequences(self, prompts):
        runs = [
            self._run_agent_loop(
                {},
                {"step": step, "sample_index": index, "rollout_n": n, "validate": False},
                agent_name="single_turn",
                uid=f"p{index}",
                session_id=n,
            )
            for step, index, n in prompts
        ]
        return await asyncio.gather(*runs, return_exceptions=True)

    async def _run_agent_loop(self, sampling_params, trajectory, *, agent_name, **kwargs):
        metrics = {}
        with simple_timer("generate_sequences", metrics):
            await asyncio.sleep(0.01)
            if trajectory["sample_index"] == 9:
                raise RuntimeError("the engine has gone")
            _, ids = await self.client.generate(kwargs["uid"], prompt_ids=[1, 2, 3])
        output = SimpleNamespace(
            prompt_ids=[1, 2, 3],
            response_ids=ids,
            response_mask=[1, 1, 1, 0, 1],
            num_turns=2,
            reward_score=None,
            metrics=SimpleNamespace(num_preempted=-1),
            extra_fields={"min_global_steps": 0, "max_global_steps": 1},
        )
        return await self._agent_loop_postprocess(output, trajectory["validate"], **kwargs)

    async def _agent_loop_postprocess(self, output, validate, **kwargs):
        with simple_timer("compute_score", {}):
            await asyncio.sleep(0.005)
        output.reward_score = 0.25
        return output
