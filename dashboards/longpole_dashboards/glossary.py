"""Definitions that people read in tooltips, and the source that would report what is missing."""

from collections.abc import Mapping
from types import MappingProxyType

from longpole.conventions import metrics
from longpole_dashboards.formats import format_ratio, format_value

DEFINITIONS: Mapping[str, str] = MappingProxyType(
    {
        "share": (
            "Exclusive seconds of a stage over the seconds of its step. Nothing is counted twice; "
            "what no stage covers is shown as unattributed."
        ),
        "outside": (
            "Validation and checkpoints that ran between two steps: not part of any step's seconds."
        ),
        "step_time": "Wall-clock seconds from the start of a step to its end on the controller.",
        "throughput": "All tokens of a step over its seconds and the GPUs the run holds.",
        "mfu_actor": (
            "Model FLOPs utilisation of the actor's update: the FLOPs its tokens need over what "
            "the GPUs could do in dense bf16 in that time."
        ),
        "mfu_step": (
            "Model FLOPs utilisation of the whole step: the FLOPs of its training passes over what "
            "all GPUs of the run could do in the step's seconds."
        ),
        "mfu_infer": "Model FLOPs utilisation while log probabilities are computed.",
        "rollout_share": (
            "Share of the step in which the trainer waits for samples. 60 to 80 % is usual for "
            "long reasoning."
        ),
        "unattributed": "Seconds of the step that no stage covers.",
        "change": (
            "Change: the newest step against the median of the earlier ones that the charts below "
            "show. The verdict compares with a baseline of its own: the attempt's first steady "
            "steps, and those just before the judged ones."
        ),
        "staleness": "How many weight versions the oldest sample of the batch is behind.",
        "recoverable": "An estimate of what fixing this would give back; it is not a measurement.",
        "confidence": (
            "High: outer and inner measurements agree and the other side is stable. Medium: outer "
            "and inner agree. Low: only the outer measurement speaks."
        ),
        "idle": "Stretches in which GPUs of the run stood idle while the loop ran.",
        "engines": (
            "What the rollout engines report: the KV cache in use by replica, requests that run "
            "and wait in all of them, and where requests were preempted."
        ),
        "sample_rest": "Seconds of the sample that none of its parts covers.",
        "policy_version": (
            "Versions of the weights that the sample was generated with, from its first token to "
            "its last. Two different ones: the weights changed while it was generated."
        ),
        "prefill": (
            "Prefill: from the end of the engine's queue to the first token, while it reads the "
            "prompt. Decode: from there to the last token. Summed over the sample's requests."
        ),
        "replica_gpus": (
            "Those on which the replica's processes run, as they declare them or as agents see "
            "them hold memory there."
        ),
        "siblings": (
            "The other answers to the same prompt. Group-based algorithms learn from how much "
            "better or worse one is than the rest."
        ),
        "decomposition": (
            "Throughput is tokens over seconds and GPUs. Each part says by which factor it "
            "changed; multiplied, the factors are exactly the whole change."
        ),
        "loop_throughput": (
            "Tokens over the seconds of steps and of what ran between them, and over GPUs."
        ),
        "idle_held": ("A run holds the GPU, and it was used less than 5 % over the last minute."),
        "throttled": (
            "The driver named a slowdown reason in a tenth of the last minute's samples or more."
        ),
        "silent": "Nothing came from the node for a minute.",
        "estimated": (
            "No process, pod or job joined this GPU to its run: it stands on the same node, "
            "and its load follows the run's stages."
        ),
        "partial": (
            "If generation had stopped once this share of the samples was done, it would have "
            "ended that much earlier. A partial rollout carries the rest over to the next step, "
            "with the tokens that were made by then; an abort loses them."
        ),
        "tail_waste": (
            "While the last samples run, most of the rollout's slots are empty: 1 - running / most "
            "running, over gen. Times the GPUs that generate, these are wasted GPU-seconds."
        ),
        "decode_bandwidth": (
            "Weights and KV cache that decoding reads, over what the rollout's GPUs could read "
            "during gen: an estimate from the samples' own rates. Empty slots keep it low."
        ),
        "of_best": (
            "The best of its kind is 100 %: for a GPU its SM clock at work over the highest one of "
            "its role, for a replica the least seconds a token over its own. What waits for it in "
            "a collective is as slow. ▲ marks a straggler: well below the usual, not the best."
        ),
        "like_lengths": (
            "Its seconds a token over what the other replicas take for samples of like length: "
            "longer answers alone make nobody a straggler."
        ),
        "slow_in": "Steps in which it was a straggler, of those in which its pace is known.",
        "rank": "Of the process on the GPU, as its launcher says.",
        "energy": (
            "What the GPUs took, by the counters that their drivers keep; hosts, networks and "
            "cooling are not in it. Where no counter tells, ≈ marks mean power times seconds."
        ),
        "host_processes": (
            "Resident memory of Ray's processes without what they share, as the agent reads it: "
            "one that grows step after step leaks, and when the node runs out Ray kills workers."
        ),
        "tail_share": (
            "At every moment the empty slots wait, in equal parts, for the samples that still run. "
            "By activity a sample's part is split as its whole time is, which is an estimate."
        ),
    }
)

SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "gpus": "a Longpole agent on the GPU nodes",
        "stages": "longpole.stage() around the trainer's stages, or verl's timing_s metrics",
        "windows": "longpole.stage(); a log says how long a stage took, not when",
        "trajectories": "longpole.trajectory(), once a sample",
        "parts": "longpole.trajectory(parts=...), one part a turn, tool call or score",
        "prefill": (
            "the engine's request traces: vLLM's --otlp-traces-endpoint, SGLang's --enable-trace"
        ),
        "replica_gpus": (
            "the engine's process: longpole.init(instance=REPLICA, gpu_ids=...), "
            "or an agent that sees it hold GPU memory"
        ),
        "groups": "longpole.trajectory(group_id=...)",
        "clocks": "NVML's SM clock, which MIG devices and some virtual GPUs do not tell",
        "paces": "longpole.trajectory(replica=..., generate_s=..., output_tokens=...)",
        "energy": "the energy or power of NVML, from a Longpole agent on the GPU nodes",
        "host_processes": "a Longpole agent on a node where Ray's workers run",
        "nodes": "a Longpole agent on the node",
        "config": "longpole.init(config=...)",
        "mfu": "the trainer's MFU metric, or model_config in longpole.init()",
        "throughput": "tokens_total of longpole.step(), and the run's GPU count",
        "staleness": "staleness metrics of an asynchronous trainer",
        "open_stage": "longpole.stage(), which announces a stage when it starts",
        "sync_phases": "longpole.sync_phase() inside the weight sync",
        "engines": "engines that an agent scrapes (--scrape-targets), or that trainers register",
        "metrics": "longpole.log(step, {...})",
    }
)


def not_reported(source: str, subject: str = "") -> str:
    """Return what to say where a value is missing: which source would provide it."""
    start = f"{subject}: not reported" if subject else "Not reported"
    return f"{start}, would come from {SOURCES[source]}."


def silent_part(subject: str) -> str:
    """Return what to say where nobody reported anything in the part of a step that is shown."""
    return f"{subject}: no report in this part of the step."


# What evidence rows measure, where the metric's own name says it badly.
_LABELS: Mapping[str, str] = MappingProxyType(
    {
        "rollout/slowest_of_gen": "slowest sample, of gen",
        "rollout/slowest_to_mean_time": "slowest sample, time to mean",
        "rollout/slowest_to_mean_tokens": "slowest sample, tokens to mean",
        "rollout/idle_ratio": "slots idle during gen",
        "rollout/tool_of_end": "tools, of the last samples' time",
        "rollout/score_of_end": "scoring, of the last samples' time",
        "rollout/recomputed_ratio": "recomputed after preemption",
        "rollout/replica_seconds_per_token": "slowest replica, seconds per token",
        "rollout/replica_tokens_to_mean": "that replica's tokens to mean",
        "rollout/tokens_per_s_per_sample": "decode speed of a sample",
        "global_seqlen/balanced_max_to_mean": "tokens of the fullest rank to mean",
        "mfu_actor_stage": "MFU, whole update stage",
        "mfu_actor": "MFU, actor update",
    }
)
_PREFIXES = (
    ("share/", "share of "),
    ("stage_s/", "seconds of "),
    ("timing_s/", "seconds of "),
    ("gpu_active/", "GPU activity in "),
    ("gpu_idle_s/", "idle GPU-seconds, "),
)
_FRACTIONS = ("share/", "mfu", "ratio", "fraction", "_of_gen", "_of_end", "gpu_active/")


def metric_label(name: str) -> str:
    """Return what people read for a metric of an evidence row."""
    if name in _LABELS:
        return _LABELS[name]
    if name.startswith("share/") and name.endswith("/lead"):
        return f"lead of {name[len('share/') : -len('/lead')].replace('_', ' ')}"
    for prefix, words in _PREFIXES:
        if name.startswith(prefix):
            return words + name.removeprefix(prefix).replace("/", " ").replace("_", " ")
    canonical = metrics.CANONICAL_OF_ALIAS.get(name, name)
    kind = metrics.METRICS.get(canonical)
    return kind.label if kind is not None else name.replace("/", " ").replace("_", " ")


def format_metric(name: str, value: float | None, unit: str) -> str:
    """Return a metric's value as people read it: fractions as percentages, factors with a sign."""
    if unit == "1" and value is not None:
        if "_to_mean" in name:
            return f"{value:.2f} ×"
        if any(mark in name.lower() for mark in _FRACTIONS):
            return format_ratio(value, 1)
    return format_value(value, unit)
