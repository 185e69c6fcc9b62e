"""The runs of a small pretend team."""

from longpole.conventions import stages
from support.dashboard_workload import ASYNC_STAGES, SYNC_STAGES, RunSpec, S

LIVE_RUN = "math/grpo-qwen3-8b"
HANGING_RUN = "code/ppo-llama-70b"
ASYNC_RUN = "agents/dapo-qwen3-32b"
BARE_RUN = "import/verl-gsm8k"
BASELINE_RUN = "math/grpo-qwen3-8b-baseline"

_CONFIG = {
    "rollout.n": "8",
    "data.train_batch_size": "32",
    "data.max_response_length": "8192",
    "actor.ppo_mini_batch_size": "32",
    "rollout.gpu_memory_utilization": "0.85",
    "trainer.logger": "longpole",
}
_BASELINE_STAGES = tuple(
    (stage, seconds * {stages.GEN: 1.22, stages.UPDATE_WEIGHTS: 0.8}.get(stage, 1.0))
    for stage, seconds in SYNC_STAGES
)


def make_specs(now_ns: int) -> tuple[RunSpec, ...]:
    """Return the runs of a small team: live, resumed, hanging, asynchronous, imported, over."""
    return (
        RunSpec(
            LIVE_RUN,
            "grpo-qwen3-8b-math",
            seed=3,
            start_ns=now_ns - 3390 * S,
            resume_at=12,
            config=_CONFIG,
        ),
        RunSpec(
            HANGING_RUN,
            "ppo-llama-70b-code",
            seed=5,
            start_ns=now_ns - 1490 * S,
            hang_at=(9, stages.UPDATE_WEIGHTS),
            state="stalled",
            algorithm="ppo",
            hosts=("node-b1",),
        ),
        RunSpec(
            ASYNC_RUN,
            "dapo-qwen3-32b-agents",
            seed=9,
            start_ns=now_ns - 2600 * S,
            stage_seconds=ASYNC_STAGES,
            algorithm="dapo",
            mode="fully_async",
            hosts=("node-c1", "node-c2"),
            has_mfu=False,
            has_trajectories=False,
            staleness=2.0,
        ),
        RunSpec(
            BASELINE_RUN,
            "grpo-qwen3-8b-baseline",
            seed=21,
            stage_seconds=_BASELINE_STAGES,
            config=_CONFIG
            | {
                "rollout.gpu_memory_utilization": "0.6",
                "data.max_response_length": "6144",
                "rollout.enforce_eager": "True",
            },
            start_ns=now_ns - 90_000 * S,
            num_steps=120,
            state="finished",
        ),
        RunSpec(
            "code/grpo-coder-7b",
            "grpo-coder-7b",
            seed=33,
            start_ns=now_ns - 170_000 * S,
            num_steps=47,
            state="crashed",
            hosts=("node-b1",),
        ),
        RunSpec(
            BARE_RUN,
            "verl-gsm8k",
            seed=41,
            start_ns=now_ns - 260_000 * S,
            num_steps=18,
            state="imported",
            has_gpus=False,
            has_trajectories=False,
            time_estimated=True,
        ),
    )
