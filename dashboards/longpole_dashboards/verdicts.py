"""The decision table in words: what each verdict means and what proves it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class VerdictKind:
    """One row of the decision table.

    Attributes:
        code: The verdict, from the closed list of `longpole.diagnosis/1`.
        title: What the loop waits for, in a few words.
        proof: What has to be measured beside dominance.
        look: Where to look next.
    """

    code: str
    title: str
    proof: str
    look: str


VERDICT_KINDS: tuple[VerdictKind, ...] = (
    VerdictKind(
        "rollout.preemption",
        "Rollout recomputes preempted samples",
        "Preempted or retracted work is 5 % of generation or more, with the KV cache near full.",
        "KV room, concurrent sequences, tensor parallel size, prompt length",
    ),
    VerdictKind(
        "rollout.tool",
        "Rollout waits for tools",
        "Tools take half or more of the time of the samples that finish last.",
        "Tool latency and concurrency, timeouts, agent-loop workers",
    ),
    VerdictKind(
        "rollout.reward",
        "Rollout waits for scoring",
        "Scoring takes half or more of the time of the samples that finish last.",
        "Reward workers, verifiable rewards, timeouts",
    ),
    VerdictKind(
        "rollout.truncation",
        "Rollout runs into the length cap",
        "A quarter or more of the training samples end at the cap.",
        "The cap, overlong filtering, early abort, length penalty",
    ),
    VerdictKind(
        "rollout.imbalance",
        "One rollout replica holds up the rest",
        "A replica's seconds per token are 1.3 times the median with like lengths.",
        "Routing, the slow replica's GPU, concurrency, data parallel size",
    ),
    VerdictKind(
        "rollout.long_tail",
        "Rollout waits for a few long samples",
        "The slowest sample spans 85 % of generation, 1.5 times the mean; its tokens explain it.",
        "Partial rollout, length-aware batching, early abort, an asynchronous pipeline",
    ),
    VerdictKind(
        "rollout.engine",
        "The inference engine decodes slowly",
        "All samples are about equally slow, and tokens per second are low for the concurrency.",
        "Batch concurrency, eager mode, quantised weights, prefix caching",
    ),
    VerdictKind(
        "rollout.unexplained",
        "Rollout dominates, cause not seen",
        "Nothing inside generation is known, or nothing known explains it.",
        "Report trajectories or engine metrics to see inside",
    ),
    VerdictKind(
        "reward",
        "The loop waits for rewards",
        "Scoring as a stage of its own dominates the step.",
        "Reward replicas, batching, timeouts",
    ),
    VerdictKind(
        "logprob",
        "Log probabilities dominate",
        "Re-reading the samples dominates the step.",
        "Micro-batch size, dynamic batch, log probabilities from the engine",
    ),
    VerdictKind(
        "update.compute",
        "Training dominates and is efficient",
        "MFU of the whole stage is healthy: 35 % dense, 20 % mixture of experts.",
        "Fewer tokens or epochs, more GPUs, lower precision",
    ),
    VerdictKind(
        "update.inefficient",
        "Training dominates and wastes the GPUs",
        "MFU is low: below 20 % dense, 10 % mixture of experts.",
        "Micro-batches and token budget, packing, offload, parallel sizes",
    ),
    VerdictKind(
        "update.imbalance",
        "One training rank holds up the rest",
        "Tokens per data-parallel rank are uneven, or one GPU is slowed down.",
        "Batch balancing, the slow GPU",
    ),
    VerdictKind(
        "update.unknown",
        "Training dominates, efficiency not known",
        "MFU is missing or impossible.",
        "Report the model's configuration and the GPU's name",
    ),
    VerdictKind(
        "update.critic",
        "The critic's update dominates",
        "Training dominates, and the critic takes longer than the actor.",
        "Critic batch sizes, or an algorithm without a critic",
    ),
    VerdictKind(
        "sync.weights",
        "The loop waits for the weight sync",
        "Moving weights to the rollout engines dominates the step.",
        "Sync method, bucket size, deltas, group building",
    ),
    VerdictKind(
        "sync.sleep_wake",
        "Engines spend the time going to sleep and waking",
        "Releasing and taking back GPU memory dominates the step.",
        "Sleep level, offload settings, colocation",
    ),
    VerdictKind(
        "overhead.unattributed",
        "Time no stage accounts for",
        "The largest part of the step is covered by no stage.",
        "Data movement, serialisation, the controller",
    ),
    VerdictKind(
        "overhead.outside",
        "Validation or checkpoints dominate",
        "Work between steps takes half or more of the steps' seconds.",
        "Validation and checkpoint frequency, asynchronous checkpoints",
    ),
    VerdictKind(
        "async.trainer_starved",
        "The trainer starves for samples",
        "The trainer's exposed wait is 20 % of the step or more.",
        "The rollout side's share of GPUs, then the cause",
    ),
    VerdictKind(
        "async.rollout_starved",
        "The rollout side is held back",
        "Rollouts are paused or the buffer is full, while the trainer hardly waits.",
        "The trainer's share of GPUs, update efficiency, the staleness bound",
    ),
    VerdictKind(
        "balanced",
        "Balanced: no stage dominates",
        "No family has 40 % of the step and 5 points more than the next.",
        "The two largest stages",
    ),
)
VERDICTS: Mapping[str, VerdictKind] = MappingProxyType({kind.code: kind for kind in VERDICT_KINDS})


def verdict_title(code: str | None) -> str:
    """Return what a verdict means in a few words."""
    if code is None:
        return "No verdict yet"
    kind = VERDICTS.get(code)
    return kind.title if kind is not None else code


def verdict_badge(code: str | None) -> str:
    """Return a verdict short enough for a badge: `long tail`, `update inefficient`."""
    if code is None:
        return ""
    family, _, rest = code.partition(".")
    words = rest.replace("_", " ") or family
    return words if family in ("rollout", "async") or not rest else f"{family} {words}"
