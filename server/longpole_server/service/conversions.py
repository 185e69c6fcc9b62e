"""Stored records turned into the facts that analysis and diagnosis read."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from longpole_server.analysis.architectures_known import find_model_config
from longpole_server.model.facts import RunFacts, SyncPhaseFacts, TrajectoryFacts
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import RunStart, StageSpan
from longpole_server.model.step import Step

_TRANSFER = "transfer"
# Settings under which frameworks name the cap on a response's tokens.
_RESPONSE_CAP_KEYS = (
    "response_length_cap",
    "max_response_length",
    "data.max_response_length",
    "response_length",
    "rollout.response_length",
    "actor_rollout_ref.rollout.response_length",
    "rollout_max_response_len",
)


def make_run_facts(start: RunStart, run_gpus: Sequence[RunGpu]) -> RunFacts:
    """Return what an attempt says about itself, completed by the GPUs joined to it."""
    held = [gpu for gpu in run_gpus if gpu.attempt == start.attempt]
    models = Counter(gpu.model for gpu in held if gpu.model)
    return RunFacts(
        run_id=start.run_id,
        name=start.name or start.run_id,
        system=start.system,
        system_version=start.system_version,
        algorithm=start.algorithm,
        # What is not proven stays open: diagnosis looks at what the steps log.
        mode=start.mode or find_pools_mode(held),
        gpu_count=start.gpu_count or len({gpu.gpu_uuid for gpu in held}) or None,
        gpu_model=models.most_common(1)[0][0] if models else None,
        model_config=parse_model_config(start.model_config) or find_model_config(start.model_name),
        response_length_cap=_find_response_cap(start.config),
        config=start.config,
        model_name=start.model_name,
        staleness_bound=start.staleness_bound,
        staleness_basis=start.staleness_basis,
    )


def parse_model_config(text: str | None) -> Mapping[str, object] | None:
    """Return a model's configuration from its JSON, None when absent or not an object."""
    try:
        parsed: object = json.loads(text or "null")
    except ValueError:
        return None
    return cast("Mapping[str, object]", parsed) if isinstance(parsed, dict) else None


def make_sync_phases(spans: Sequence[StageSpan]) -> tuple[SyncPhaseFacts, ...]:
    """Return the phases of a step's weight syncs, summed, of the process that owns the ledger.

    Where that one sends none, of the process whose phases take longest. Method and bytes stand on
    the sync itself; they are given to its transfer.
    """
    owners = {(span.host, span.pid) for span in spans if span.is_loop}
    by_process: defaultdict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    for span in spans:
        if span.sync_phase is not None:
            of_process = by_process[span.host, span.pid]
            spent_ns = span.end_ns - span.start_ns
            of_process[span.sync_phase] = of_process.get(span.sync_phase, 0) + spent_ns
    own = [process for process in by_process if process in owners]
    chosen = max(own or by_process, key=lambda key: sum(by_process[key].values()), default=None)
    phases = by_process[chosen] if chosen is not None else {}
    method = next((span.sync_method for span in spans if span.sync_method), None)
    told = [span.sync_bytes for span in spans if span.sync_bytes]
    num_bytes = sum(told) if told else None
    if (method or num_bytes) and _TRANSFER not in phases:
        phases = {**phases, _TRANSFER: 0}
    return tuple(
        SyncPhaseFacts(phase, ns / 1e9, method, num_bytes if phase == _TRANSFER else None)
        for phase, ns in phases.items()
    )


def list_sequence_lengths(samples: TrajectoryFacts | None) -> list[int]:
    """Return prompt plus response tokens of the samples that report both."""
    if samples is None:
        return []
    tokens = zip(samples.input_tokens, samples.output_tokens, strict=True)
    return [read + made for read, made in tokens if read is not None and made is not None]


def list_response_lengths(samples: TrajectoryFacts | None) -> list[int]:
    """Return the response tokens of the samples that report them."""
    if samples is None:
        return []
    return [tokens for tokens in samples.output_tokens if tokens is not None]


def sample_window_ns(step: Step) -> tuple[int, int] | None:
    """Return the window in which samples of unknown step belong to this one; None while open."""
    return (step.start_ns, step.end_ns) if step.end_ns is not None else None


def gpus_during(run_gpus: Iterable[RunGpu], step: Step) -> list[RunGpu]:
    """Return the GPUs that the step's attempt held during the step, each once."""
    held = (gpu for gpu in run_gpus if gpu.attempt == step.attempt)
    return gpus_between(held, step.start_ns, step.end_ns)


def gpus_between(run_gpus: Iterable[RunGpu], start_ns: int, end_ns: int | None) -> list[RunGpu]:
    """Return the GPUs held in a range, each once, by host and index. No end is open."""
    held: dict[str, RunGpu] = {}
    for gpu in sorted(run_gpus, key=lambda gpu: gpu.since_ns):
        begun = end_ns is None or gpu.since_ns < end_ns
        ended = gpu.until_ns is not None and gpu.until_ns <= start_ns
        if begun and not ended:
            held[gpu.gpu_uuid] = gpu
    return sorted(held.values(), key=lambda gpu: (gpu.host, gpu.gpu_index))


def find_pools_mode(run_gpus: Iterable[RunGpu]) -> str | None:
    """Return the mode that the GPUs' roles prove: separate pools, or None."""
    roles: defaultdict[str, set[str]] = defaultdict(set)
    for gpu in run_gpus:
        roles[gpu.role].add(gpu.gpu_uuid)
    training = roles["trainer"] | roles["critic"]
    separate = roles["rollout"] and training and not roles["rollout"] & training
    return "separate_async" if separate else None


def _find_response_cap(config: Mapping[str, str]) -> int | None:
    for key in _RESPONSE_CAP_KEYS:
        if key in config:
            try:
                return int(float(config[key]))
            except ValueError:
                continue
    return None
