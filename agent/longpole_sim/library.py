"""Every verdict and every finding as a run that deserves it.

The first fifteen are those of the demo; the others stand beside them. All take about ten seconds a
step as they are; `variation` draws others of their kind.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from longpole_sim.models import MIXTURE
from longpole_sim.scenario import (
    GpuFault,
    Latency,
    Lengths,
    Pools,
    Scenario,
    ToolUse,
    WeightSync,
)
from longpole_sim.scenarios import EVEN_ANSWERS, LONG_TAIL, SCENARIOS

_COMPUTE = SCENARIOS["update_compute"]
_INEFFICIENT = SCENARIOS["update_inefficient"]
_QUICK = Lengths(median=130, sample_sigma=0.2, group_sigma=0.1)

_UPDATE = (
    replace(
        _COMPUTE,
        name="update_compute_moe",
        title="an efficient update of a mixture of experts",
        model=MIXTURE,
        actor_mfu=0.25,
        infer_mfu=0.33,
    ),
    replace(
        _INEFFICIENT,
        name="update_inefficient_moe",
        title="an inefficient update of a mixture of experts",
        model=MIXTURE,
        actor_mfu=0.075,
        infer_mfu=0.25,
    ),
    replace(
        _INEFFICIENT,
        name="update_offload",
        title="parameters and optimiser travel between host and GPU around every pass",
        verdict="update.inefficient",
        actor_mfu=0.17,
        inner_of_stage=1.9,
        bubble_ratio=0.45,
    ),
    replace(
        _COMPUTE,
        name="update_imbalance",
        title="tokens are not balanced over the data-parallel ranks",
        verdict="update.imbalance",
        findings=("imbalance.dp",),
        dp_imbalance=1.4,
    ),
    replace(
        _COMPUTE,
        name="update_throttled",
        title="one hot GPU holds up all ranks of the update",
        verdict="update.imbalance",
        findings=("gpu.throttled", "straggler.gpu"),
        fault=GpuFault("throttled"),
    ),
    replace(
        _COMPUTE,
        name="update_unknown",
        title="a long update of a model that nobody knows",
        verdict="update.unknown",
        findings=("mfu.unknown",),
        reported_mfu="zero",
        tells_model=False,
    ),
    replace(
        _COMPUTE,
        name="update_impossible",
        title="a long update whose trainer divides by the wrong peak",
        verdict="update.unknown",
        findings=("mfu.impossible",),
        reported_mfu="impossible",
        tells_model=False,
    ),
    replace(
        _COMPUTE,
        name="update_recomputed",
        title="the trainer's MFU is impossible, the model is known: it is computed anew",
        verdict="update.compute",
        findings=("mfu.impossible",),
        reported_mfu="impossible",
    ),
)

_SHARED = (
    Scenario(
        name="logprob",
        title="log probabilities are computed in tiny micro-batches",
        verdict="logprob",
        prompt=Lengths(median=260, sample_sigma=0.0, group_sigma=0.3, cap=1_024),
        response=_QUICK,
        infer_mfu=0.055,
    ),
    Scenario(
        name="sync_group",
        title="the process group of the weight sync is built anew every time",
        verdict="sync.weights",
        response=_QUICK,
        sync=WeightSync(method="nccl", transfer_s=0.6, build_group_s=4.8),
    ),
    Scenario(
        name="sleep_wake",
        title="engines give their memory away and take it back slowly",
        verdict="sync.sleep_wake",
        response=_QUICK,
        sleep_wake_s=5.5,
    ),
    Scenario(
        name="controller_slow",
        title="the controller moves data between the stages",
        verdict="overhead.unattributed",
        response=_QUICK,
        controller_s=0.75,
    ),
    Scenario(
        name="prepare_slow",
        title="batches are prepared on the controller",
        verdict="overhead.unattributed",
        response=_QUICK,
        prepare_s=4.5,
        controller_s=0.1,
    ),
    replace(
        LONG_TAIL,
        name="validation_often",
        title="every step is validated on a large set",
        verdict="overhead.outside",
        validation_every=1,
        validation_samples_per_gpu=128,
        response=_QUICK,
    ),
    replace(
        LONG_TAIL,
        name="checkpoint_often",
        title="a checkpoint is written in every step",
        verdict="overhead.outside",
        response=_QUICK,
        checkpoint_every=1,
        checkpoint_s=9.0,
    ),
)

_ROLLOUT = (
    Scenario(
        name="preemption",
        title="the KV cache is too small: samples are thrown out and computed again",
        verdict="rollout.preemption",
        prompt=Lengths(median=200, sample_sigma=0.0, group_sigma=0.2, cap=1_024),
        response=Lengths(median=260, sample_sigma=0.35, group_sigma=0.2),
        prefix_cache=False,
        kv_tokens=6_500,
    ),
    Scenario(
        name="collect_slow",
        title="all samples are done long before gen ends: something behind them is slow",
        verdict="rollout.unexplained",
        response=_QUICK,
        collect_s=5.5,
    ),
    replace(
        LONG_TAIL,
        name="overlapping_rewards",
        title="scoring takes long and overlaps the decoding of others",
        verdict="rollout.long_tail",
        response=Lengths(median=150, sample_sigma=0.42, group_sigma=0.25),
        score=Latency("code_tests", 0.5, 0.3),
    ),
    replace(
        SCENARIOS["tool_slow"],
        name="multi_turn_tools",
        title="an agent loop of several turns waits for a slow sandbox at every one",
        response=Lengths(median=150, sample_sigma=0.2, group_sigma=0.1),
        tools=ToolUse(Latency("browser", 1.5, 0.35), max_calls=5, last_turn_tokens=24, min_calls=3),
    ),
    replace(
        SCENARIOS["replica_slow"],
        name="crowded_replica",
        title="a replica has most of the samples and a queue, the others are done",
        response=EVEN_ANSWERS,
        slow_replica_speed=1.0,
        crowded_replica=2.4,
        max_running=9,
    ),
)

_POOLS = Scenario(
    name="async_trainer_starved",
    title="fully asynchronous: the trainer waits for samples with a long tail",
    verdict="async.trainer_starved",
    cause="rollout.long_tail",
    mode="fully_async",
    pools=Pools(trainer_gpu_ratio=0.5),
    decode_speed=0.45,
    validation_every=0,
    staleness_bound=2,
)
_ASYNC = (
    _POOLS,
    replace(
        _POOLS,
        name="async_rollout_starved",
        title="fully asynchronous: the rollout waits for a slow trainer",
        verdict="async.rollout_starved",
        cause=None,
        response=_QUICK,
        decode_speed=1.0,
        prompt=Lengths(median=1_150, sample_sigma=0.0, group_sigma=0.2, cap=2_048),
        actor_mfu=0.30,
    ),
    replace(
        _POOLS,
        name="async_serial",
        title="asynchronous by name: the rollout starts when the trainer has finished",
        verdict="async.serial",
        cause=None,
        pools=Pools(trainer_gpu_ratio=0.5, launch="serial"),
    ),
)

LIBRARY: Mapping[str, Scenario] = MappingProxyType(
    {
        **SCENARIOS,
        **{scenario.name: scenario for scenario in (*_UPDATE, *_SHARED, *_ROLLOUT, *_ASYNC)},
    }
)
