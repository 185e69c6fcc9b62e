"""What can be the matter with a run elsewhere, label by label, as the specification words it.

Each function bends a `World` so that one row of the decision table holds with a clear margin, or,
among the look-alikes, so that it clearly does not. `TROUBLES` lists them by label.
"""

from collections.abc import Callable, Mapping

from support.elsewhere_world import (
    ORDINARY,
    Levels,
    Part,
    Sample,
    StepLived,
    Sync,
    Window,
    World,
    bimodal,
    capped,
    constant,
    lognormal,
)

Bend = Callable[[World], None]
TROUBLES: dict[str, Bend] = {}
ROLLOUT = frozenset(
    f"rollout.{name}"
    for name in (
        *("preemption", "tool", "reward", "truncation", "imbalance", "long_tail", "engine"),
        "unexplained",
    )
)
# What a run without trouble must not show.
ALARMS = frozenset(
    {
        *("imbalance.dp", "imbalance.replica", "straggler.gpu", "gpu.idle", "gpu.throttled"),
        *("gpu.lost", "kv.leak", "kv.pressure", "staleness.drift", "staleness.bound_exceeded"),
        *("mismatch.rollout_train", "prefix_cache.cold", "group.routing", "rollout.filtered"),
        *("mfu.impossible", "stage.overlap", "shape.tokens", "health.clip_fraction"),
        *("health.kl_ref", "health.truncated_ratio", "health.mfu_actor", "health.reward_mean"),
        *("health.stale_drop_ratio", "health.response_length_mean", "health.rollout_throughput"),
        *("regression.gen", "regression.update_actor", "regression.update_weights"),
    }
)


def trouble(label: str) -> Callable[[Bend], Bend]:
    """Register a trouble."""

    def register(bend: Bend) -> Bend:
        TROUBLES[label] = bend
        return bend

    return register


def expect(world: World, *verdicts: str, careful: tuple[str, ...] = ()) -> None:
    world.truth.verdicts = frozenset(verdicts)
    world.truth.careful = frozenset(careful)


def expect_rollout(world: World, code: str) -> None:
    """One cause inside the rollout; without inner evidence only the careful code is right."""
    inner = bool(world.sends & {"samples", "engines"})
    expect(world, code, careful=() if "samples" in world.sends else ("rollout.unexplained",))
    if not inner:
        world.truth.verdicts = frozenset({code, "rollout.unexplained"})


def more_samples(world: World) -> None:
    world.num_samples = max(world.num_samples, 64)


def last_samples(samples: list[Sample], count: int) -> list[Sample]:
    return sorted(samples, key=lambda sample: sample.end_s)[-count:]


def split(sample: Sample, kind: str, name: str, part: float) -> None:
    """Put work of another kind behind the first stretch of decoding, at the same total time."""
    whole_s = sample.duration_s
    begun_s = sample.start_s + whole_s * (1 - part) * 0.6
    ended_s = begun_s + whole_s * part
    sample.parts = [
        Part("generate", "rl.generate", sample.start_s, begun_s),
        Part(kind, name, begun_s, ended_s),
        Part("generate", "rl.generate", ended_s, sample.end_s),
    ]
    sample.output = max(1, round(sample.output * (1 - part)))
    sample.turns = 2


# --- rollout --------------------------------------------------------------------------------------


@trouble("rollout.long_tail")
def long_tail(world: World) -> None:
    world.dominate({"gen": 1})
    more_samples(world)
    world.lengths = world.chance.choice([lognormal(0.6), bimodal(0.22, 0.93)])
    world.replicas = min(world.replicas, 2)
    expect_rollout(world, "rollout.long_tail")


@trouble("rollout.engine")
def engine(world: World) -> None:
    world.dominate({"gen": 1})
    world.lengths = constant(world.chance.choice([0.02, 0.08]))
    world.rate = world.chance.uniform(4, 15)
    world.replicas = min(world.replicas, 4)
    expect_rollout(world, "rollout.engine")


@trouble("rollout.tool")
def tool(world: World) -> None:
    world.dominate({"gen": 1})
    more_samples(world)
    world.lengths = world.chance.choice(ORDINARY)
    world.replicas = min(world.replicas, 2)

    def bend(step: StepLived, window: Window) -> None:
        for sample in last_samples(step.samples, max(5, len(step.samples) // 8)):
            split(sample, "tool", "execute_tool sandbox", world.chance.uniform(0.68, 0.85))

    world.bend_samples = bend
    expect_rollout(world, "rollout.tool")


@trouble("rollout.reward")
def reward_inside(world: World) -> None:
    world.dominate({"gen": 1})
    more_samples(world)
    world.replicas = min(world.replicas, 2)

    def bend(step: StepLived, window: Window) -> None:
        for sample in last_samples(step.samples, max(5, len(step.samples) // 8)):
            part = world.chance.uniform(0.68, 0.85)
            middle_s = sample.start_s + sample.duration_s * (1 - part)
            sample.parts = [
                Part("generate", "rl.generate", sample.start_s, middle_s),
                Part("score", "rl.score", middle_s, sample.end_s),
            ]
            sample.output = max(1, round(sample.output * (1 - part)))

    world.bend_samples = bend
    expect_rollout(world, "rollout.reward")


@trouble("rollout.truncation")
def truncation(world: World) -> None:
    world.dominate({"gen": 1})
    more_samples(world)
    world.lengths = capped(0.35, world.chance.uniform(0.36, 0.6))
    world.replicas = min(world.replicas, 2)
    world.cap = 0  # set from the longest sample when it is known
    expect_rollout(world, "rollout.truncation")
    world.truth.must = (
        frozenset({"health.truncated_ratio"}) if "samples" in world.sends else frozenset()
    )


@trouble("rollout.imbalance")
def imbalance(world: World) -> None:
    world.dominate({"gen": 1})
    world.num_samples = 96
    world.replicas = world.chance.choice([3, 4, 6])
    world.group_size = 8
    world.lengths = constant(0.1)
    factor = world.chance.uniform(1.6, 2.2)

    def bend(step: StepLived, window: Window) -> None:
        for sample in step.samples:
            if sample.replica != 1:
                sample.end_s = sample.start_s + sample.duration_s / factor
                sample.parts = [Part("generate", "rl.generate", sample.start_s, sample.end_s)]

    world.bend_samples = bend
    expect_rollout(world, "rollout.imbalance")
    if "samples" in world.sends:
        world.truth.must = frozenset({"imbalance.replica"})


@trouble("rollout.preemption")
def preemption(world: World) -> None:
    world.dominate({"gen": 1})
    more_samples(world)
    world.kv_peak = 0.985
    world.preempted_ratio = world.chance.uniform(0.45, 0.8)
    world.replicas = min(world.replicas, 2)

    def bend(step: StepLived, window: Window) -> None:
        for sample in step.samples:
            sample.preemptions = int(world.chance.random() < world.preempted_ratio)

    world.bend_samples = bend
    expect_rollout(world, "rollout.preemption")


@trouble("rollout.unexplained")
def unexplained(world: World) -> None:
    """Samples end early in gen and engines then rest: the controller takes the rest of it."""
    world.dominate({"gen": 1})
    world.fill = world.chance.uniform(0.2, 0.4)
    world.lengths = constant(0.1)
    expect(world, "rollout.unexplained")


# --- the other families ---------------------------------------------------------------------------


@trouble("reward")
def reward_stage(world: World) -> None:
    world.dominate({"reward": 1})
    expect(world, "reward")


@trouble("logprob")
def logprob(world: World) -> None:
    world.dominate(world.chance.choice([{"old_log_prob": 1, "ref": 1}, {"old_log_prob": 1}]))
    expect(world, "logprob")


@trouble("update.compute")
def update_compute(world: World) -> None:
    world.dominate({"update_actor": 1})
    world.mfu = world.chance.uniform(0.42, 0.55)
    expect(world, "update.compute")


@trouble("update.inefficient")
def update_inefficient(world: World) -> None:
    world.dominate({"update_actor": 1})
    world.mfu = world.chance.uniform(0.03, 0.15)

    def weak(_track: object, step: StepLived, at_s: float) -> Levels | None:
        update = step.stages["update_actor"][0]
        return {"tensor": 0.1, "sm": 0.5} if update[0] <= at_s < update[1] else {}

    world.gpu_levels = {f"#{place}": weak for place in range(world.num_sampled_gpus)}
    expect(world, "update.inefficient")
    world.truth.must = frozenset({"health.mfu_actor"})


@trouble("update.imbalance")
def update_imbalance(world: World) -> None:
    world.dominate({"update_actor": 1})
    world.system = "verl"
    world.dp_ratio = world.chance.uniform(1.25, 1.6)
    expect(world, "update.imbalance")
    world.truth.must = frozenset({"imbalance.dp"})


@trouble("update.unknown")
def update_unknown(world: World) -> None:
    world.dominate({"update_actor": 1})
    world.mfu = world.chance.choice([None, None, 0.0])
    world.sends.discard("gpus")
    expect(world, "update.unknown")
    world.truth.must = frozenset({"mfu.unknown"})


@trouble("update.critic")
def update_critic(world: World) -> None:
    world.dominate({"update_critic": world.chance.uniform(1.5, 3), "update_actor": 1})
    expect(world, "update.critic")


@trouble("sync.weights")
def sync_weights(world: World) -> None:
    world.dominate({"update_weights": 1})
    slow = world.chance.choice(["transfer", "build_group"])

    def bend(step: StepLived, _index: int) -> None:
        begun, ended = step.stages["update_weights"][0]
        length_s = ended - begun
        cuts = {"transfer": 0.12, "build_group": 0.1, "finalize": 0.05, "abort": 0.03}
        cuts[slow] = 1 - sum(value for name, value in cuts.items() if name != slow)
        phases: list[tuple[str, float, float]] = []
        for name in ("abort", "build_group", "transfer", "finalize"):
            phases.append((name, begun, begun + cuts[name] * length_s))
            begun = phases[-1][2]
        step.sync = Sync(phases, "nccl", 15_000_000_000)

    world.bend_step = bend
    expect(world, "sync.weights")


@trouble("sync.sleep_wake")
def sleep_wake(world: World) -> None:
    world.dominate({"sleep_wake": 1, "update_weights": 0.25})
    expect(world, "sync.sleep_wake")


@trouble("overhead.unattributed")
def unattributed(world: World) -> None:
    world.dominate({"unattributed": 1})
    expect(world, "overhead.unattributed")


@trouble("overhead.outside")
def outside(world: World) -> None:
    world.dominate({"gen": 1}, 0.5)
    each = world.chance.choice(["testing", "save_checkpoint"])
    part = world.chance.uniform(0.75, 1.4)
    world.outside_s = lambda index: {each: part * world.step_s * world.chance.uniform(0.95, 1.05)}
    expect(world, "overhead.outside")


@trouble("balanced")
def balanced(world: World) -> None:
    gen = world.chance.uniform(0.30, 0.36)
    world.shares = {
        "gen": gen,
        "old_log_prob": 0.07,
        "ref": 0.06,
        "reward": 0.08,
        "update_actor": world.chance.uniform(0.30, 0.35),
        "update_weights": 0.06,
        "adv": 0.01,
    }
    world.jitter = min(world.jitter, 0.03)
    expect(world, "balanced")
    world.truth.must_not = ALARMS


# --- pools apart ----------------------------------------------------------------------------------


def apart(world: World) -> None:
    world.separate = True
    world.mode = world.chance.choice(["fully_async", "separate_async"])
    world.gpus = max(world.gpus, 4)
    world.trainer_gpus = world.gpus // 2
    world.num_sampled_gpus = 4
    world.replicas = min(world.replicas, 2)
    world.warm_up = 1.0


@trouble("async.trainer_starved")
def trainer_starved(world: World) -> None:
    apart(world)
    wait = world.chance.uniform(0.35, 0.65)
    world.shares = {"trainer_wait": wait, "update_actor": 0.93 - wait, "update_weights": 0.03}
    world.num_samples = 64
    world.lengths = lognormal(0.5)
    world.rollout_window = lambda step: [(step.start_s, step.end_s)]
    expect(world, "async.trainer_starved")


@trouble("async.rollout_starved")
def rollout_starved(world: World) -> None:
    apart(world)
    world.shares = {"trainer_wait": 0.02, "old_log_prob": 0.1, "update_actor": 0.82}
    world.rollout_window = lambda step: [(step.start_s, step.start_s + step.duration_s * 0.3)]
    capacity = world.chance.choice([64, 256, 1024])
    world.health = lambda index: {
        "rollout_paused_ratio": 0.65,
        "buffer_size": capacity,
        "buffer_capacity": capacity,
    }
    expect(world, "async.rollout_starved")


@trouble("async.serial")
def serial(world: World) -> None:
    apart(world)
    wait = world.chance.uniform(0.4, 0.6)
    world.shares = {"trainer_wait": wait, "update_actor": 0.93 - wait, "update_weights": 0.03}
    world.rollout_window = lambda step: list(step.stages["trainer_wait"])
    world.fill = 0.99
    expect(world, "async.serial")


# --- look-alikes ----------------------------------------------------------------------------------


@trouble("like.full_cache")
def full_cache(world: World) -> None:
    """A full cache without preemption is a well-packed engine."""
    long_tail(world)
    world.kv_peak = 0.99
    world.truth.must = frozenset({"kv.pressure"}) if "engines" in world.sends else frozenset()
    world.truth.must_not = frozenset({"rollout.preemption"})


@trouble("like.tools_inside")
def tools_inside(world: World) -> None:
    """Tools in every sample but the last-finishing ones cost nothing."""
    long_tail(world)

    def bend(step: StepLived, window: Window) -> None:
        last = {id(sample) for sample in last_samples(step.samples, 6)}
        for sample in step.samples:
            if id(sample) not in last:
                split(sample, "tool", "execute_tool search", 0.6)

    world.bend_samples = bend
    world.truth.must_not = frozenset({"rollout.tool"})


@trouble("like.scores_inside")
def scores_inside(world: World) -> None:
    """Scoring that overlaps others' decoding costs nothing."""
    long_tail(world)

    def bend(step: StepLived, window: Window) -> None:
        last = {id(sample) for sample in last_samples(step.samples, 6)}
        for sample in step.samples:
            if id(sample) not in last:
                split(sample, "score", "rl.score", 0.6)

    world.bend_samples = bend
    world.truth.must_not = frozenset({"rollout.reward"})


@trouble("like.some_truncated")
def some_truncated(world: World) -> None:
    """A seventh of the samples at the cap does not set the length of gen."""
    world.dominate({"gen": 1})
    more_samples(world)
    world.lengths = capped(0.35, 0.13)
    world.replicas = min(world.replicas, 2)
    world.cap = 0
    expect(world, *(ROLLOUT - {"rollout.truncation"}))
    world.truth.must_not = frozenset({"rollout.truncation", "health.truncated_ratio"})


@trouble("like.long_lengths_on_one_replica")
def uneven_lengths(world: World) -> None:
    """A replica that got the longer samples is not slow."""
    long_tail(world)
    world.replicas = 3
    world.lengths = constant(0.05)

    def bend(step: StepLived, window: Window) -> None:
        for sample in step.samples:
            if sample.replica != 1:
                sample.end_s = sample.start_s + sample.duration_s * 0.4
                sample.output = max(1, round(sample.output * 0.4))
                sample.parts = [Part("generate", "rl.generate", sample.start_s, sample.end_s)]

    world.bend_samples = bend
    world.num_samples = 96
    expect(world, *(ROLLOUT - {"rollout.imbalance"}))
    world.truth.must_not = frozenset({"rollout.imbalance", "imbalance.replica"})


@trouble("like.slow_without_tokens")
def slow_without_tokens(world: World) -> None:
    """The slowest sample takes three times the mean with ordinary tokens: no long tail."""
    world.dominate({"gen": 1})
    more_samples(world)
    world.lengths = constant(0.05)
    world.replicas = 1

    def bend(step: StepLived, window: Window) -> None:
        last = {id(sample) for sample in last_samples(step.samples, 2)}
        for sample in step.samples:
            if id(sample) not in last:
                sample.end_s = sample.start_s + sample.duration_s * 0.3
                sample.parts = [Part("generate", "rl.generate", sample.start_s, sample.end_s)]

    world.bend_samples = bend
    expect(world, "rollout.unexplained")
    world.truth.must_not = frozenset({"rollout.long_tail"})


@trouble("like.rare_preemption")
def rare_preemption(world: World) -> None:
    long_tail(world)
    world.kv_peak = 0.985
    world.preempted_ratio = 0.02

    def bend(step: StepLived, window: Window) -> None:
        for place, sample in enumerate(step.samples):
            sample.preemptions = int(place == 3)

    world.bend_samples = bend
    world.truth.must_not = frozenset({"rollout.preemption"})


@trouble("like.lag_at_bound")
def lag_at_bound(world: World) -> None:
    """A lag at its bound alone decides nothing."""
    apart(world)
    world.shares = {"trainer_wait": 0.05, "old_log_prob": 0.2, "update_actor": 0.7}
    world.rollout_window = lambda step: [(step.start_s, step.end_s)]
    world.num_samples = 64
    world.fill = 0.99
    world.bound = 3
    world.staleness = lambda index: (3.0, 3.0)
    world.mfu = 0.45
    expect(world, "update.compute")
    world.truth.must_not = frozenset({"async.rollout_starved", "async.trainer_starved"})


@trouble("like.periodic_validation")
def periodic_validation(world: World) -> None:
    """Validation every sixth step for a step and a half is a quarter of its seconds."""
    update_compute(world)
    world.num_steps = 18
    world.outside_s = lambda index: {"testing": 1.5 * world.step_s} if index % 6 == 5 else {}
    world.truth.settled = False
    world.truth.must_not = frozenset({"overhead.outside"})


@trouble("like.one_bad_step")
def one_bad_step(world: World) -> None:
    """One step with a stuck weight sync does not flip the window."""
    update_compute(world)
    world.num_steps = 16

    def bend(step: StepLived, index: int) -> None:
        if index == 9:
            begun, ended = step.stages["update_weights"][0]
            longer_s = 2.5 * world.step_s
            step.stages["update_weights"] = [(begun, ended + longer_s)]
            step.duration_s += longer_s
            step.sync = Sync([("transfer", begun, ended + longer_s)], "nccl")

    world.bend_step = bend
    world.truth.settled = False


@trouble("like.mfu_of_another_peak")
def impossible_mfu(world: World) -> None:
    world.dominate({"update_actor": 1})
    world.mfu = 1.018
    world.sends.discard("gpus")
    expect(world, "update.unknown")
    world.truth.must = frozenset({"mfu.impossible"})


@trouble("like.odd_but_healthy")
def odd_but_healthy(world: World) -> None:
    """Healthy numbers that look odd: no clipping at all, a KL of hundredths a token."""
    balanced(world)
    world.health = lambda index: {
        "actor/pg_clipfrac": 0.0,
        # Of a token: a sequence has as many times that as it has tokens.
        "actor/kl_loss": min(0.002, 20 / (world.step_s * world.rate)),
        "critic/score/mean": 0.3 + 0.004 * index,
        "actor/entropy": 0.3,
    }


@trouble("tiny.two_samples")
def two_samples(world: World) -> None:
    """Two samples a step, of which one is long."""
    world.dominate({"gen": 1})
    world.num_samples = world.group_size = 2
    world.replicas = 1
    world.lengths = lambda chance, count: [0.2, 1.0]
    expect(world, *ROLLOUT)


@trouble("tiny.one_step")
def one_step(world: World) -> None:
    """A run's first step is all there is."""
    update_compute(world)
    world.num_steps = 1


# --- findings -------------------------------------------------------------------------------------


def healthy(world: World) -> None:
    balanced(world)
    world.truth.must_not = frozenset()
    world.warm_up = 1.0


@trouble("finding.throttled_gpu")
def throttled_gpu(world: World) -> None:
    healthy(world)
    world.gpus = max(world.gpus, 8)
    world.num_sampled_gpus = 8

    def hot(_track: object, step: StepLived, at_s: float) -> Levels | None:
        return {"clock": 1.1e9, "reasons": 64.0}

    world.gpu_levels = {"#5": hot}
    world.truth.verdicts = frozenset()
    if "gpus" in world.sends:
        world.truth.must = frozenset({"straggler.gpu", "gpu.throttled"})


@trouble("finding.idle_gpu")
def idle_gpu(world: World) -> None:
    healthy(world)
    world.gpus = max(world.gpus, 8)
    world.num_sampled_gpus = 8

    def idle(_track: object, step: StepLived, at_s: float) -> Levels | None:
        return {"utilization": 0.0, "sm": 0.0, "tensor": 0.0, "dram": 0.0, "power": 85.0}

    world.gpu_levels = {"#2": idle}
    if "gpus" in world.sends:
        world.truth.must = frozenset({"gpu.idle"})


@trouble("finding.lost_gpu")
def lost_gpu(world: World) -> None:
    healthy(world)
    world.gpus = max(world.gpus, 8)
    world.num_sampled_gpus = 8
    world.step_s = max(world.step_s, 300)
    gone = world.first_number + 6

    def lose(_track: object, step: StepLived, at_s: float) -> Levels | None:
        return None if step.number >= gone else {}

    world.gpu_levels = {"#6": lose}
    if "gpus" in world.sends:
        world.truth.must = frozenset({"gpu.lost"})


@trouble("finding.kv_leak")
def kv_leak(world: World) -> None:
    healthy(world)
    world.num_steps = 14
    world.step_s = max(world.step_s, 120)
    world.kv_floor = lambda index: 0.015 * index
    if "engines" in world.sends:
        world.truth.must = frozenset({"kv.leak"})


@trouble("finding.staleness")
def stale(world: World) -> None:
    lag_at_bound(world)
    world.num_steps = 14
    world.bound = 4
    world.staleness = lambda index: (1.0 + 0.35 * index, 2.0 + 0.5 * index)
    world.truth.must = frozenset({"staleness.drift", "staleness.bound_exceeded"})


@trouble("finding.mismatch")
def mismatch(world: World) -> None:
    healthy(world)
    world.health = lambda index: {"rollout_train_mismatch": 0.6 * world.chance.uniform(0.8, 1.2)}
    world.truth.must = frozenset({"mismatch.rollout_train"})


@trouble("finding.group_routing")
def group_routing(world: World) -> None:
    healthy(world)
    world.routed_together = False
    world.replicas = 4
    world.group_size = 8
    world.num_samples = 64
    world.prompt_tokens = 6000
    world.prefix_hits = 0.02
    world.prefill_ratio = 0.3
    # SGLang does not tell the seconds of prefill.
    world.engine = "vllm:"
    if {"engines", "samples"} <= world.sends:
        world.truth.must = frozenset({"group.routing"})


@trouble("finding.cold_cache")
def cold_cache(world: World) -> None:
    healthy(world)
    world.replicas = 2
    world.group_size = 16
    world.num_samples = 64
    world.prompt_tokens = 6000
    world.prefix_hits = 0.03
    world.prefill_ratio = 0.3
    # SGLang does not tell the seconds of prefill.
    world.engine = "vllm:"
    if {"engines", "samples"} <= world.sends:
        world.truth.must = frozenset({"prefix_cache.cold"})


@trouble("finding.filtered")
def filtered(world: World) -> None:
    healthy(world)
    world.health = lambda index: {"filtered_ratio": 0.45}
    world.truth.must = frozenset({"rollout.filtered"})


@trouble("finding.overlap")
def overlap(world: World) -> None:
    healthy(world)

    def bend(step: StepLived, _index: int) -> None:
        begun, ended = step.stages["reward"][0]
        step.stages["reward"] = [(begun - 0.04 * step.duration_s, ended)]

    world.bend_step = bend
    if "spans" in world.sends:
        world.truth.must = frozenset({"stage.overlap"})


@trouble("finding.health")
def unhealthy(world: World) -> None:
    healthy(world)
    world.num_steps = 24
    world.health = lambda index: {
        "clip_fraction": 0.7,
        "kl_ref": 80.0,
        "stale_drop_ratio": 0.35,
        "reward_mean": (0.4 if index < 20 else 0.95) + world.chance.gauss(0, 0.01),
    }
    world.config["kl_basis"] = "sequence"
    world.truth.must = frozenset(
        {"health.clip_fraction", "health.stale_drop_ratio", "health.reward_mean"}
    )


@trouble("finding.regression")
def regression(world: World) -> None:
    healthy(world)
    world.num_steps = 34
    world.jitter = 0.02
    late = 27

    def bend(step: StepLived, index: int) -> None:
        if index < late:
            return
        begun, ended = step.stages["update_actor"][0]
        longer_s = (ended - begun) * 0.8
        step.stages["update_actor"] = [(begun, ended + longer_s)]
        shift(step, ended, longer_s)

    world.bend_step = bend
    world.num_samples = 32
    world.truth.verdicts = frozenset()
    world.truth.settled = False
    world.truth.window = "last 5"
    world.truth.must = frozenset({"regression.update_actor"})
    world.truth.must_not = frozenset({"shape.tokens", "regression.gen"})


@trouble("finding.shape")
def shape(world: World) -> None:
    """Answers get longer: everything takes longer, nothing got slower."""
    healthy(world)
    world.num_steps = 34
    world.jitter = 0.02
    world.num_samples = 32
    world.step_factor = lambda index: 1.0 if index < 27 else 1.8
    world.prompt_tokens = 40
    world.truth.settled = False
    world.truth.window = "last 5"
    world.truth.must = frozenset({"shape.tokens"})
    world.truth.must_not = frozenset({"regression.gen", "regression.update_actor"})


def shift(step: StepLived, after_s: float, by_s: float) -> None:
    """Move what comes after a moment of a step."""
    for name, windows in step.stages.items():
        step.stages[name] = [
            (start + by_s, end + by_s) if start >= after_s - 1e-9 else (start, end)
            for start, end in windows
        ]
    if step.sync is not None:
        step.sync.phases = [
            (name, start + by_s, end + by_s) if start >= after_s - 1e-9 else (name, start, end)
            for name, start, end in step.sync.phases
        ]
    step.duration_s += by_s


# --- borderline pairs -----------------------------------------------------------------------------


def _pair(label: str, verdict: str, just: Bend, short: Bend) -> None:
    def just_over(world: World) -> None:
        just(world)
        expect(world, verdict)

    def just_under(world: World) -> None:
        short(world)
        world.truth.verdicts = world.truth.careful = world.truth.must = frozenset()
        world.truth.must_not = world.truth.must_not | {verdict}

    TROUBLES[f"edge.{label}.over"] = just_over
    TROUBLES[f"edge.{label}.under"] = just_under


def _shares(values: Mapping[str, float], mfu: float = 0.45) -> Bend:
    def bend(world: World) -> None:
        world.shares = dict(values)
        world.jitter = 0.005
        world.mfu = mfu
        world.truth.must_not = frozenset()

    return bend


_pair(
    "dominance",
    "update.compute",
    _shares({"gen": 0.33, "update_actor": 0.43, "old_log_prob": 0.1, "reward": 0.1}),
    _shares({"gen": 0.31, "update_actor": 0.37, "old_log_prob": 0.15, "reward": 0.13}),
)
_pair(
    "margin",
    "update.compute",
    _shares({"gen": 0.40, "update_actor": 0.475, "reward": 0.1}),
    _shares({"gen": 0.43, "update_actor": 0.45, "reward": 0.1}),
)


def _with(bend: Bend, change: Callable[[World], None]) -> Bend:
    def both(world: World) -> None:
        bend(world)
        change(world)

    return both


def _set_dp(ratio: float) -> Callable[[World], None]:
    return lambda world: setattr(world, "dp_ratio", ratio)


def _set_capped(part: float) -> Callable[[World], None]:
    return lambda world: setattr(world, "lengths", capped(0.35, part))


_pair(
    "dp",
    "update.imbalance",
    _with(update_imbalance, _set_dp(1.19)),
    _with(update_imbalance, _set_dp(1.11)),
)
_pair(
    "truncation",
    "rollout.truncation",
    _with(truncation, _set_capped(0.30)),
    _with(truncation, _set_capped(0.19)),
)


def _wait(share: float) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.shares = {"trainer_wait": share, "update_actor": 0.95 - share, "update_weights": 0.03}
        world.jitter = 0.005

    return change


_pair(
    "trainer_wait",
    "async.trainer_starved",
    _with(trainer_starved, _wait(0.25)),
    _with(trainer_starved, _wait(0.15)),
)
