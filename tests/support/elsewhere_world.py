"""A cluster made up from the written specification alone: what a trainer elsewhere does.

It shares nothing with the simulator: own distributions, own scales, own noise. A `World` is drawn
from a seed; a trouble (`elsewhere_troubles`) bends it; `World.live` lets it run. All times are
seconds after the run's begin.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Window = tuple[float, float]
Levels = Mapping[str, float]

# Stages of a step in the order in which a synchronous trainer runs them.
ORDER = (
    "prepare",
    "gen",
    "trainer_wait",
    "sleep_wake",
    "reward",
    "old_log_prob",
    "ref",
    "values",
    "adv",
    "update_critic",
    "update_actor",
    "save_checkpoint",
    "update_weights",
)


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a sample's time: `generate`, `tool`, `score` or `queue`."""

    kind: str
    name: str
    start_s: float
    end_s: float


@dataclass(slots=True)
class Sample:
    """One trajectory."""

    name: str
    group: str
    replica: int
    start_s: float
    end_s: float
    prompt: int
    output: int
    parts: list[Part]
    status: str = "success"
    preemptions: int | None = None
    reward: float = 0.0
    turns: int = 1
    paused_s: float | None = None
    version: int | None = None
    version_end: int | None = None
    phase: str = "train"

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s

    def spent_s(self, kind: str) -> float:
        return sum(part.end_s - part.start_s for part in self.parts if part.kind == kind)


@dataclass(slots=True)
class Sync:
    """A weight sync: phases in order, and what was carried."""

    phases: list[tuple[str, float, float]]
    method: str | None = None
    num_bytes: int | None = None


@dataclass(slots=True)
class StepLived:
    """One step as it happened."""

    number: int
    start_s: float
    duration_s: float
    stages: dict[str, list[Window]]
    outside: dict[str, Window] = field(default_factory=dict[str, Window])
    samples: list[Sample] = field(default_factory=list[Sample])
    scalars: dict[str, float] = field(default_factory=dict[str, float])
    sync: Sync | None = None
    rollout: list[Window] = field(default_factory=list[Window])
    extra_spans: list[tuple[str, str, Window]] = field(
        default_factory=list[tuple[str, str, Window]]
    )

    @property
    def end_s(self) -> float:
        return self.start_s + self.duration_s

    @property
    def following_s(self) -> float:
        return max([self.end_s, *(end for _, end in self.outside.values())])

    def seconds(self, stage: str) -> float:
        return sum(end - start for start, end in self.stages.get(stage, ()))

    @property
    def tokens(self) -> int:
        return sum(sample.prompt + sample.output for sample in self.samples)


@dataclass(slots=True)
class GpuTrack:
    """One sampled GPU."""

    host: str
    uuid: str
    index: int
    role: str
    levels: Callable[[StepLived, float], Levels | None]


@dataclass(slots=True)
class Truth:
    """What the specification says about a run.

    Attributes:
        verdicts: Codes any of which is right.
        careful: Codes that are right too, as long as their confidence is `low`.
        must: Findings that must be there on the whole run.
        must_not: Findings and verdicts that must not.
        causes: For async verdicts, second-level codes any of which is right; empty means any.
        settled: Whether each step alone and each window must say the same.
        window: Of which window the findings are looked at.
    """

    verdicts: frozenset[str] = frozenset()
    careful: frozenset[str] = frozenset()
    must: frozenset[str] = frozenset()
    must_not: frozenset[str] = frozenset()
    causes: frozenset[str] = frozenset()
    settled: bool = True
    window: str = "whole"


Lengths = Callable[[random.Random, int], list[float]]


def lognormal(sigma: float) -> Lengths:
    return lambda chance, count: [math.exp(chance.gauss(0, sigma)) for _ in range(count)]


def constant(scatter: float = 0.03) -> Lengths:
    return lambda chance, count: [1 + chance.uniform(-scatter, scatter) for _ in range(count)]


def bimodal(short: float, part_short: float) -> Lengths:
    def draw(chance: random.Random, count: int) -> list[float]:
        return [
            (short if chance.random() < part_short else 1.0) * chance.uniform(0.9, 1.1)
            for _ in range(count)
        ]

    return draw


def capped(sigma: float, part: float) -> Lengths:
    """Lengths of which `part` end at the cap."""

    def draw(chance: random.Random, count: int) -> list[float]:
        at_cap = round(part * count)
        free = [min(0.97, 0.5 * math.exp(chance.gauss(0, sigma))) for _ in range(count - at_cap)]
        lengths = [*free, *([1.0] * at_cap)]
        chance.shuffle(lengths)
        return lengths

    return draw


ORDINARY: tuple[Lengths, ...] = (lognormal(0.12), constant(0.15), bimodal(0.8, 0.4))


class World:
    """A run that can be lived. Everything a trouble bends is an attribute."""

    def __init__(self, label: str, seed: int) -> None:
        self.label = label
        self.seed = seed
        self.chance = random.Random(f"{label}/{seed}")
        chance = self.chance
        self.truth = Truth()
        self.system: str | None = chance.choice(
            [
                *("verl", "slime", "openrlhf", "nemo_rl", "areal", "trl", "skyrl", "roll"),
                *("prime_rl", "homegrown-rl", None),
            ]
        )
        self.mode: str | None = chance.choice(["sync", "sync", "colocate_async", None])
        self.gpus = chance.choice([1, 2, 4, 8, 8, 12, 16, 24, 32, 64, 128, 256, 384, 512])
        self.trainer_gpus = 0
        self.step_s = math.exp(chance.uniform(math.log(8), math.log(2400)))
        self.num_steps = 8
        self.first_number = chance.choice([0, 1, 1, 1, 37])
        self.num_samples = chance.choice([32, 48, 64, 96])
        self.group_size = chance.choice([4, 8, 16])
        self.replicas = min(chance.choice([1, 2, 3, 4, 8]), max(1, self.gpus))
        self.shares: dict[str, float] = {}
        self.outside_s: Callable[[int], Mapping[str, float]] = lambda index: {}
        self.jitter = chance.choice([0.01, 0.03, 0.06])
        self.warm_up = chance.choice([1.0, 1.0, 2.5, 5.0])
        self.lengths: Lengths = chance.choice(ORDINARY)
        # Part of gen that the slowest sample spans.
        self.fill = chance.uniform(0.92, 0.985)
        self.rate = chance.uniform(45, 110)
        self.prompt_tokens = chance.randint(60, 900)
        self.bend_samples: Callable[[StepLived, Window], None] | None = None
        self.bend_step: Callable[[StepLived, int], None] | None = None
        self.step_factor: Callable[[int], float] = lambda index: 1.0
        self.token_factor: Callable[[int], float] = lambda index: 1.0
        self.kv_peak = chance.uniform(0.25, 0.75)
        self.kv_floor: Callable[[int], float] = lambda index: 0.0
        self.capacity: int | None = None
        self.preempted_ratio = 0.0
        self.prefix_hits = chance.uniform(0.5, 0.7)
        self.prefill_ratio = 0.04
        self.routed_together = True
        # How engines' series are spelled; None takes any spelling.
        self.engine: str | None = None
        self.staleness: Callable[[int], tuple[float, float]] | None = None
        self.bound: float | None = None
        self.cap: int | None = None
        self.model_config: Mapping[str, object] | None = None
        self.model_name: str | None = None
        self.gpu_model = chance.choice(["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"])
        self.mfu: float | None = chance.uniform(0.24, 0.33)
        self.dp_ratio: float | None = chance.uniform(1.0, 1.06)
        self.config: dict[str, str] = {}
        self.separate = False
        self.rollout_window: Callable[[StepLived], list[Window]] | None = None
        self.gpu_levels: dict[str, Callable[[GpuTrack, StepLived, float], Levels | None]] = {}
        self.num_sampled_gpus = min(self.gpus, chance.choice([2, 4, 8]))
        self.sends = {"spans", "samples", "engines", "gpus", "scalars"}
        self.health: Callable[[int], Mapping[str, float]] = lambda index: {}

    # --- shares -------------------------------------------------------------------------------

    def dominate(self, stages: Mapping[str, float], share: float | None = None) -> None:
        """Give a family a dominant share, split by weight, and spread the rest with a clear gap."""
        chance = self.chance
        share = chance.uniform(0.52, 0.78) if share is None else share
        total = sum(stages.values())
        self.shares = {name: share * weight / total for name, weight in stages.items()}
        self._spread_rest(1 - share, share - 0.12)

    def _spread_rest(self, rest: float, most: float) -> None:
        """Share out what is left so that no family comes near the dominant one."""
        chance = self.chance
        others = {
            "rollout": ("trainer_wait" if self.separate else "gen",),
            "logprob": ("old_log_prob", "ref"),
            "update": ("update_actor",),
            "sync": ("update_weights",),
            "reward": ("reward",),
        }
        taken = set(self.shares)
        free = {name: names for name, names in others.items() if not taken.intersection(names)}
        if taken & {"update_critic", "update_actor"}:
            free.pop("update", None)
        if taken & {"sleep_wake"}:
            free.pop("sync", None)
        covered = 0.985 if "unattributed" not in taken else 1.0
        left = rest * covered
        weights = {name: chance.uniform(0.4, 1.0) for name in free}
        for name in ("rollout", "update"):
            if name in weights:
                weights[name] *= 2
        for name, names in free.items():
            part = min(left * weights[name] / sum(weights.values()), max(0.02, min(most, 0.36)))
            for stage in names:
                self.shares[stage] = part / len(names)

    # --- life ---------------------------------------------------------------------------------

    def live(self) -> list[StepLived]:
        """Return the run's steps."""
        steps: list[StepLived] = []
        now_s = 0.0
        for index in range(self.num_steps):
            lived = self._live_step(index, now_s)
            steps.append(lived)
            now_s = lived.following_s + self.chance.uniform(0.0, 0.002) * self.step_s
        return steps

    def _live_step(self, index: int, start_s: float) -> StepLived:
        chance = self.chance
        factor = self.step_factor(index) * (self.warm_up if index == 0 else 1.0)
        seconds = {
            name: share * self.step_s * factor * max(0.2, chance.gauss(1, self.jitter))
            for name, share in self.shares.items()
            if name != "unattributed"
        }
        gap_s = self.step_s * factor - sum(self.step_s * factor * share for share in self._shown())
        gap_s = max(gap_s, 0.003 * self.step_s) * chance.uniform(0.9, 1.1)
        stages: dict[str, list[Window]] = {}
        now_s = start_s + gap_s * 0.3
        present = [name for name in ORDER if name in seconds]
        for name in present:
            stages[name] = [(now_s, now_s + seconds[name])]
            now_s += seconds[name] + gap_s * 0.7 / len(present)
        step = StepLived(self.first_number + index, start_s, now_s - start_s, stages)
        for name, length_s in self.outside_s(index).items():
            begun_s = step.following_s
            step.outside[name] = (begun_s, begun_s + length_s)
        self._fill_rollout(step, index)
        if "update_weights" in stages and step.sync is None:
            begun, ended = stages["update_weights"][0]
            step.sync = Sync([("transfer", begun, ended)], "nccl")
        if self.bend_step is not None:
            self.bend_step(step, index)
        step.scalars.update(self.health(index))
        return step

    def _shown(self) -> list[float]:
        return [share for name, share in self.shares.items() if name != "unattributed"]

    def _fill_rollout(self, step: StepLived, index: int) -> None:
        if self.rollout_window is not None:
            step.rollout = self.rollout_window(step)
        else:
            step.rollout = list(step.stages.get("gen", ()))
        if not step.rollout:
            return
        window = (step.rollout[0][0], step.rollout[-1][1])
        step.samples = self.decode(step.number, window, self.token_factor(index))
        if self.bend_samples is not None:
            self.bend_samples(step, window)

    def decode(self, number: int, window: Window, token_factor: float = 1.0) -> list[Sample]:
        """Return samples that begin with the window; the longest spans `fill` of it."""
        chance = self.chance
        lengths = self.lengths(chance, self.num_samples)
        length_s = window[1] - window[0]
        longest = max(lengths)
        samples: list[Sample] = []
        for place, relative in enumerate(lengths):
            began_s = window[0] + chance.uniform(0, 0.004) * length_s
            spent_s = relative / longest * self.fill * length_s * chance.uniform(0.985, 1.0)
            output = max(1, round(relative / longest * self.fill * length_s * self.rate))
            group = place // self.group_size
            replica = (group if self.routed_together else place) % self.replicas
            ended_s = min(began_s + spent_s, window[1] - 1e-4 * length_s)
            samples.append(
                Sample(
                    name=f"{number}-{place}",
                    group=f"{number}-g{group}",
                    replica=replica,
                    start_s=began_s,
                    end_s=ended_s,
                    prompt=max(1, round(self.prompt_tokens * chance.uniform(0.8, 1.2))),
                    output=max(1, round(output * token_factor)),
                    parts=[Part("generate", "rl.generate", began_s, ended_s)],
                    reward=round(chance.uniform(0, 1), 3),
                )
            )
        return samples

    # --- hardware -----------------------------------------------------------------------------

    def tracks(self) -> list[GpuTrack]:
        """Return the GPUs that are sampled: only some nodes are."""
        found: list[GpuTrack] = []
        for place in range(self.num_sampled_gpus):
            role = "hybrid"
            if self.separate:
                role = "trainer" if place % 2 else "rollout"
            # With pools apart each role has nodes of its own.
            host = f"{self.label}-{self.seed}-{role if self.separate else 'node'}-{place // 8}"
            uuid = f"GPU-{self.label}-{self.seed}-{place:04d}"
            found.append(GpuTrack(host, uuid, place % 8, role, self._levels_of(role, place)))
        return found

    def _levels_of(self, role: str, place: int) -> Callable[[StepLived, float], Levels | None]:
        chance = random.Random(f"{self.label}/{self.seed}/gpu/{place}")
        special = self.gpu_levels.get(f"#{place}")

        def levels(step: StepLived, at_s: float) -> Levels | None:
            stage = _stage_at(step, at_s, role)
            usual = {
                key: max(0.0, value * chance.uniform(0.93, 1.07)) if key != "clock" else value
                for key, value in LEVELS[stage].items()
            }
            usual["utilization"] = min(1.0, usual["utilization"])
            usual["clock"] = 1.755e9 * chance.uniform(0.985, 1.0)
            usual["reasons"] = 4.0 if stage == "train" and chance.random() < 0.3 else 0.0
            if special is None:
                return usual
            track = GpuTrack("", "", place % 8, role, levels)
            bent = special(track, step, at_s)
            return None if bent is None else {**usual, **bent}

        return levels


def _stage_at(step: StepLived, at_s: float, role: str) -> str:
    def inside(windows: Sequence[Window]) -> bool:
        return any(start <= at_s < end for start, end in windows)

    if role != "trainer" and inside(step.rollout):
        return "decode"
    if role != "rollout":
        for stage in ("update_actor", "update_critic"):
            if inside(step.stages.get(stage, ())):
                return "train"
        for stage in ("old_log_prob", "ref", "values"):
            if inside(step.stages.get(stage, ())):
                return "infer"
    if inside(step.stages.get("update_weights", ())):
        return "copy"
    return "rest"


LEVELS: Mapping[str, Levels] = {
    "decode": {
        "utilization": 1.0,
        "sm": 0.62,
        "tensor": 0.12,
        "dram": 0.6,
        "power": 430,
        "clock": 0,
    },
    "train": {"utilization": 1.0, "sm": 0.8, "tensor": 0.42, "dram": 0.4, "power": 620, "clock": 0},
    "infer": {
        "utilization": 0.99,
        "sm": 0.75,
        "tensor": 0.4,
        "dram": 0.4,
        "power": 560,
        "clock": 0,
    },
    "copy": {"utilization": 0.4, "sm": 0.05, "tensor": 0.0, "dram": 0.1, "power": 160, "clock": 0},
    "rest": {"utilization": 0.0, "sm": 0.0, "tensor": 0.0, "dram": 0.0, "power": 90, "clock": 0},
}
