"""What kinds of runs can be simulated. Each names the verdict it deserves.

Numbers are those of a GRPO run of an 8B model on H100s with short answers, so that a step takes
about ten seconds. All are per GPU or per sample: a scenario keeps its verdict on any cluster.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from longpole_sim.scenario import Incident, Latency, Lengths, Scenario, ToolUse, WeightSync

LONG_TAIL = Scenario(
    name="long_tail",
    title="a few long answers keep the whole cluster waiting",
    verdict="rollout.long_tail",
)
EVEN_ANSWERS = Lengths(median=210, sample_sigma=0.2, group_sigma=0.1)

_ALL = (
    LONG_TAIL,
    replace(LONG_TAIL, name="healthy", title="an ordinary run: the long tail is its longest pole"),
    Scenario(
        name="balanced",
        title="no part of the step stands out",
        verdict="balanced",
        prompt=Lengths(median=700, sample_sigma=0.0, group_sigma=0.2, cap=2_048),
        response=Lengths(median=200, sample_sigma=0.2, group_sigma=0.1),
    ),
    Scenario(
        name="update_compute",
        title="the update is the longest part, and efficient",
        verdict="update.compute",
        prompt=Lengths(median=1_150, sample_sigma=0.0, group_sigma=0.2, cap=2_048),
        response=Lengths(median=130, sample_sigma=0.15, group_sigma=0.1),
        infer_mfu=0.52,
        actor_mfu=0.40,
    ),
    Scenario(
        name="update_inefficient",
        title="the update is slow because micro-batches are too small",
        verdict="update.inefficient",
        findings=("health.mfu_actor",),
        prompt=Lengths(median=260, sample_sigma=0.0, group_sigma=0.3, cap=1_024),
        response=Lengths(median=160, sample_sigma=0.2, group_sigma=0.1),
        actor_mfu=0.115,
        infer_mfu=0.33,
        bubble_ratio=0.32,
        mini_batches=8,
    ),
    Scenario(
        name="critic",
        title="PPO with a critic whose update is slower than the actor's",
        verdict="update.critic",
        algorithm="ppo",
        group_size=1,
        prompt=Lengths(median=420, sample_sigma=0.0, group_sigma=0.3, cap=1_024),
        response=Lengths(median=140, sample_sigma=0.2, group_sigma=0.1),
        actor_mfu=0.42,
        critic_mfu=0.27,
    ),
    Scenario(
        name="sync_slow",
        title="weights go to the engines through a shared disk",
        verdict="sync.weights",
        response=Lengths(median=130, sample_sigma=0.2, group_sigma=0.1),
        sync=WeightSync(method="shared_nvme", transfer_s=5.2),
    ),
    Scenario(
        name="reward_slow",
        title="a separate reward stage is the longest part",
        verdict="reward",
        response=Lengths(median=130, sample_sigma=0.2, group_sigma=0.1),
        score=Latency("format_check", 0.001, 0.2),
        reward_s=5.6,
    ),
    Scenario(
        name="score_slow",
        title="scoring inside the rollout gets stuck for a few samples",
        verdict="rollout.reward",
        response=Lengths(median=120, sample_sigma=0.15, group_sigma=0.1),
        score=Latency("code_tests", 0.4, 0.3, stuck_probability=0.04, stuck_s=5.0),
    ),
    Scenario(
        name="tool_slow",
        title="a few tool calls get stuck and hold up the batch",
        verdict="rollout.tool",
        response=Lengths(median=130, sample_sigma=0.2, group_sigma=0.1),
        tools=ToolUse(
            call=Latency("python_sandbox", 0.35, 0.4, stuck_probability=0.03, stuck_s=5.0),
            max_calls=2,
            last_turn_tokens=24,
        ),
    ),
    Scenario(
        name="truncation",
        title="many answers end at the length cap",
        verdict="rollout.truncation",
        findings=("health.truncated_ratio",),
        response=Lengths(median=440, sample_sigma=0.4, group_sigma=0.35, cap=512),
    ),
    Scenario(
        name="replica_slow",
        title="one replica decodes slowly because its GPUs are throttled",
        verdict="rollout.imbalance",
        findings=("imbalance.replica", "gpu.throttled", "straggler.gpu"),
        response=EVEN_ANSWERS,
        slow_replica_speed=0.5,
    ),
    Scenario(
        name="engine_slow",
        title="all engines decode slowly, all samples alike",
        verdict="rollout.engine",
        response=Lengths(median=145, sample_sigma=0.05),
        decode_speed=0.22,
    ),
    replace(
        LONG_TAIL,
        name="hang",
        title="the update of step 6 never ends",
        incident=Incident("hang", step=6),
    ),
    replace(
        LONG_TAIL,
        name="resume",
        title="the trainer dies in step 7 and a second attempt resumes from step 5's checkpoint",
        incident=Incident("crash", step=7),
    ),
)
SCENARIOS: Mapping[str, Scenario] = MappingProxyType({scenario.name: scenario for scenario in _ALL})
DEFAULT_SCENARIO = LONG_TAIL.name
