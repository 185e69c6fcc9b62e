"""Every verdict and every finding as a run that deserves it.

The first fifteen are those of the demo; the others stand beside them. All take about ten seconds a
step as they are; `variation` draws others of their kind.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from longpole_sim.models import MIXTURE, ModelShape
from longpole_sim.scenario import (
    Change,
    Drift,
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
        findings=(),
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
        findings=(),
        slow_replica_speed=1.0,
        crowded_replica=2.4,
        max_running=9,
    ),
)

_PARTS = (
    replace(
        SCENARIOS["engine_slow"],
        name="queue_waves",
        title="replicas take a few samples at a time: the rest waits in waves",
        verdict="rollout.unexplained",
        decode_speed=0.9,
        response=Lengths(median=40, sample_sigma=0.05),
        max_running=5,
    ),
    replace(
        LONG_TAIL,
        name="filtered_groups",
        title="groups without a signal are thrown away after the rollout",
        findings=("rollout.filtered",),
        samples_per_gpu=48,
        filtered_ratio=0.45,
    ),
    replace(
        _COMPUTE,
        name="partial_rollout",
        title="the rollout stops at four fifths of the samples and goes on with the rest later",
        samples_per_gpu=40,
        response=Lengths(median=110, sample_sigma=0.5, group_sigma=0.3),
        stop_ratio=0.8,
    ),
    replace(
        LONG_TAIL,
        name="kv_pressure",
        title="the KV cache is full to the brim, and nothing is thrown out",
        findings=("kv.pressure",),
        kv_fill=0.985,
    ),
    replace(
        LONG_TAIL,
        name="kv_leak",
        title="blocks of the KV cache are never given back",
        findings=("kv.leak",),
        no_findings=("kv.pressure",),
        kv_floor_per_step=0.02,
        steps=13,
    ),
    replace(
        LONG_TAIL,
        name="prefix_cache_cold",
        title="samples of one prompt do not share its KV",
        findings=("prefix_cache.cold",),
        no_findings=("group.routing",),
        prompt=Lengths(median=900, sample_sigma=0.0, group_sigma=0.2, cap=2_048),
        prefill_tokens_per_s=9_000.0,
        prefix_cache=False,
        actor_mfu=0.5,
        infer_mfu=0.55,
    ),
    replace(
        LONG_TAIL,
        name="groups_apart",
        title="samples of one prompt are spread over all replicas",
        findings=("group.routing",),
        response=Lengths(median=150, sample_sigma=0.42, group_sigma=0.25),
        prompt=Lengths(median=900, sample_sigma=0.0, group_sigma=0.2, cap=2_048),
        prefill_tokens_per_s=5_000.0,
        groups_apart=True,
        actor_mfu=0.5,
        infer_mfu=0.55,
    ),
)
_ENGINE_FELL = replace(
    SCENARIOS["engine_slow"],
    name="engine_fell",
    title="all engines decode at a third of their speed from one step on",
    findings=("regression.gen",),
    response=Lengths(median=200, sample_sigma=0.05),
    decode_speed=1.0,
    change=Change(9, {"decode_speed": 0.33}),
    steps=15,
)
_CHANGES = (
    _ENGINE_FELL,
    replace(
        LONG_TAIL,
        name="regression_gen",
        title="a run with a long tail whose engines get slower",
        findings=("regression.gen",),
        no_findings=("shape.tokens", "regression.update_actor"),
        change=Change(9, {"decode_speed": 0.55}),
        steps=15,
    ),
    replace(
        _COMPUTE,
        name="regression_update",
        title="an efficient update loses its efficiency",
        verdict="update.inefficient",
        findings=("regression.update_actor",),
        no_findings=("shape.tokens", "regression.gen"),
        change=Change(9, {"actor_mfu": 0.58}),
        steps=15,
    ),
    replace(
        LONG_TAIL,
        name="regression_sync",
        title="weight syncs get slower",
        findings=("regression.update_weights",),
        no_findings=("regression.gen", "regression.update_actor"),
        change=Change(9, {"sync": 4.0}),
        steps=15,
    ),
    replace(
        LONG_TAIL,
        name="regression_logprob",
        title="log probabilities get slower",
        findings=("regression.old_log_prob", "regression.ref"),
        no_findings=("regression.gen", "regression.update_actor"),
        change=Change(9, {"infer_mfu": 0.5}),
        steps=15,
    ),
    replace(
        LONG_TAIL,
        name="token_shape",
        title="prompts and answers get longer: everything takes longer, nothing got worse",
        findings=("shape.tokens",),
        no_findings=("regression.gen", "regression.update_actor", "regression.old_log_prob"),
        change=Change(9, {"response": 1.6, "prompt": 1.6}),
        steps=15,
    ),
)
_GPUS = (
    replace(
        LONG_TAIL,
        name="gpu_throttled",
        title="one GPU is hot, and is not what the loop waits for",
        findings=("gpu.throttled", "straggler.gpu"),
        no_findings=("gpu.idle", "gpu.lost"),
        fault=GpuFault("throttled", clock_ratio=0.72),
    ),
    replace(
        LONG_TAIL,
        name="gpu_lost",
        title="one GPU sends nothing any more",
        findings=("gpu.lost",),
        no_findings=("gpu.idle", "gpu.throttled"),
        fault=GpuFault("lost", step=3),
        # Long enough for the silence to be noticed.
        steps=12,
    ),
    replace(
        SCENARIOS["update_compute"],
        name="gpu_idle",
        title="one GPU belongs to the run and is never used",
        findings=("gpu.idle",),
        no_findings=("gpu.lost", "gpu.throttled"),
        fault=GpuFault("idle"),
    ),
)
_HEALTH = (
    replace(
        LONG_TAIL,
        name="clipped",
        title="most tokens of the update are clipped",
        findings=("health.clip_fraction",),
        drifts=(Drift("actor/pg_clipfrac", 0.62),),
    ),
    replace(
        LONG_TAIL,
        name="kl_high",
        title="the policy leaves the reference",
        findings=("health.kl_ref",),
        drifts=(Drift("actor/kl_loss", 12.0, noise=0.03),),
    ),
    replace(
        LONG_TAIL,
        name="reward_jump",
        title="the reward jumps: it may be hacked",
        findings=("health.reward_mean",),
        drifts=(
            Drift("critic/score/mean", 0.31, 0.002, noise=0.01, jump_step=12, jump_to=0.93),
            Drift("critic/rewards/mean", 0.31, 0.002, noise=0.01, jump_step=12, jump_to=0.93),
        ),
        steps=16,
    ),
    replace(
        LONG_TAIL,
        name="rollout_half_empty",
        title="most slots of the engines are empty while the long samples finish",
        findings=("health.rollout_busy",),
    ),
    replace(
        LONG_TAIL,
        name="answers_explode",
        title="answers get longer from step to step, five times in all",
        findings=("health.response_length_mean",),
        response=Lengths(median=70, sample_sigma=0.42, group_sigma=0.25, cap=2_048),
        change=Change(2, {"response": 1.16}, again=True),
        steps=14,
    ),
    replace(
        SCENARIOS["engine_slow"],
        name="engine_decays",
        title="all engines decode a little slower from step to step",
        findings=("health.rollout_throughput",),
        decode_speed=0.8,
        change=Change(2, {"decode_speed": 0.9}, again=True),
        steps=14,
    ),
    replace(
        LONG_TAIL,
        name="mismatch",
        title="trainer and engine disagree about the samples more and more",
        findings=("mismatch.rollout_train",),
        drifts=(Drift("rollout_corr/kl", 0.15, 0.03),),
    ),
    replace(
        LONG_TAIL,
        name="mismatch_usual",
        title="trainer and engine disagree as much as they always do",
        no_findings=("mismatch.rollout_train", "health.clip_fraction", "health.kl_ref"),
        drifts=(Drift("rollout_corr/kl", 0.004),),
    ),
    replace(
        SCENARIOS["reward_slow"],
        name="overlapping_stages",
        title="log probabilities begin while rewards are still computed",
        findings=("stage.overlap",),
        overlap_ratio=0.15,
    ),
    replace(
        SCENARIOS["sync_slow"],
        name="sync_object_store",
        title="weights go to the engines through an object store",
        sync=WeightSync(method="object_store", transfer_s=16.0),
    ),
)

_EQUAL = Pools(trainer_gpu_ratio=0.5)
_POOLS = Scenario(
    name="async_long_tail",
    title="asynchronous: the trainer waits for samples with a long tail",
    verdict="async.trainer_starved",
    cause="rollout.long_tail",
    mode="separate_async",
    trainer="v1",
    model=ModelShape().scaled(0.3),
    pools=_EQUAL,
    validation_every=0,
    staleness_bound=4,
)


# Where rollout GPUs idle too, because what the trainer waits for is no decoding, a larger pool
# of the trainer's idles more.
_MOST_TRAIN = Pools(trainer_gpu_ratio=0.75)


def _starved(base: Scenario, name: str, pools: Pools = _EQUAL) -> Scenario:
    """Return a scenario of shared GPUs as one of separate pools whose trainer it starves."""
    return replace(
        base,
        name=name,
        title=f"asynchronous: the trainer waits, for {base.title}",
        verdict="async.trainer_starved",
        cause=base.verdict,
        mode=_POOLS.mode,
        trainer=_POOLS.trainer,
        model=_POOLS.model,
        pools=pools,
        validation_every=0,
        staleness_bound=4,
        findings=(),
    )


_ASYNC = (
    _POOLS,
    _starved(_ROLLOUT[3], "async_tools"),
    _starved(SCENARIOS["score_slow"], "async_score", _MOST_TRAIN),
    _starved(SCENARIOS["truncation"], "async_truncation"),
    _starved(SCENARIOS["replica_slow"], "async_imbalance", _MOST_TRAIN),
    _starved(_ROLLOUT[0], "async_preemption"),
    _starved(SCENARIOS["engine_slow"], "async_engine"),
    _starved(_ROLLOUT[1], "async_unexplained", _MOST_TRAIN),
    replace(
        _POOLS,
        name="async_rollout_starved",
        title="asynchronous: the rollout waits for a slow trainer",
        verdict="async.rollout_starved",
        cause=None,
        model=ModelShape(),
        response=_QUICK,
        prompt=Lengths(median=1_150, sample_sigma=0.0, group_sigma=0.2, cap=2_048),
        actor_mfu=0.30,
    ),
    replace(
        _POOLS,
        name="async_serial",
        title="asynchronous by name: the rollout starts when the trainer has finished",
        verdict="async.serial",
        cause=None,
        model=ModelShape(),
        pools=Pools(trainer_gpu_ratio=0.5, launch="serial"),
    ),
    replace(
        _POOLS,
        name="async_staleness_drift",
        title="asynchronous: samples get older from step to step",
        findings=("staleness.drift",),
        no_findings=("staleness.bound_exceeded",),
        staleness_bound=9,
        lag=1.0,
        lag_per_step=0.35,
        first_step=30,
        steps=14,
    ),
    replace(
        _POOLS,
        name="async_stale_drops",
        title="asynchronous: a third of the samples are too old to be trained on",
        findings=("health.stale_drop_ratio",),
        stale_drop_ratio=0.35,
    ),
    replace(
        _POOLS,
        name="async_bound_exceeded",
        title="asynchronous: samples are older than the run allows",
        findings=("staleness.bound_exceeded",),
        staleness_bound=2,
        lag=5.0,
        first_step=30,
    ),
)

LIBRARY: Mapping[str, Scenario] = MappingProxyType(
    {
        **SCENARIOS,
        **{
            scenario.name: scenario
            for scenario in (
                *_UPDATE,
                *_SHARED,
                *_ROLLOUT,
                *_PARTS,
                *_CHANGES,
                *_GPUS,
                *_HEALTH,
                *_ASYNC,
            )
        },
    }
)
