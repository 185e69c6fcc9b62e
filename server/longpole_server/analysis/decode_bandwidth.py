"""How much of the GPUs' memory bandwidth decoding uses: the limit of small batches.

Each pass of an engine reads the weights once, whatever the number of sequences, and each sequence
its KV cache. Passes are counted from the samples' own rates, one token a pass; speculative
decoding takes fewer. Prefill is left out.
"""

import math
from dataclasses import dataclass

import numpy as np

from longpole_server.analysis.architectures import describe_architecture
from longpole_server.analysis.architectures_parts import Architecture, UnknownArchitectureError
from longpole_server.analysis.longtail_samples import Floats, GenSamples, clip_to_gen, column
from longpole_server.analysis.peaks import find_memory_peak
from longpole_server.model.facts import RunFacts, TrajectoryFacts
from longpole_server.model.step import StageTime

_BF16_BYTES, _FP8_BYTES = 2, 1


@dataclass(frozen=True, slots=True)
class DecodeBandwidth:
    """Bytes read over what the rollout's GPUs could read during gen.

    Attributes:
        ratio: 0..1; None when it is not known.
        reason: Why it is not known.
        weights_ratio: The part of it that goes into weights, the rest is KV cache.
    """

    ratio: float | None
    reason: str | None = None
    weights_ratio: float | None = None


def measure_decode_bandwidth(
    run: RunFacts,
    trajectories: TrajectoryFacts,
    gpu_count: int | None,
    gen: StageTime | None = None,
) -> DecodeBandwidth:
    """Estimate the use of memory bandwidth by decoding.

    Args:
        run: What the run says about itself.
        trajectories: Training samples of a step, with replica and tokens.
        gpu_count: GPUs that generate them.
        gen: The stage, with its windows; None takes all of the samples' time.
    """
    peak = find_memory_peak(run.gpu_model)
    missing = _find_missing(run, trajectories, gpu_count, peak)
    samples = clip_to_gen(trajectories, gen.windows if gen is not None else None)
    if missing is None and not len(samples.rows):
        missing = "no sample ran during gen"
    if missing is not None or not run.model_config or not gpu_count or not peak:
        return DecodeBandwidth(None, missing)
    try:
        architecture = describe_architecture(run.model_config)
    except UnknownArchitectureError as error:
        return DecodeBandwidth(None, str(error))
    weights = _weight_bytes(run) * _read_weights(architecture, samples, trajectories)
    cache = _cache_bytes(run) * _read_cache(architecture, samples, trajectories)
    ratio = (weights + cache) / (samples.window_s * gpu_count * peak)
    if not 0 < ratio <= 1:
        return DecodeBandwidth(None, f"computed as {ratio:.4g}, which is impossible")
    return DecodeBandwidth(ratio, None, weights / (weights + cache))


def _find_missing(
    run: RunFacts, trajectories: TrajectoryFacts, gpu_count: int | None, peak: float | None
) -> str | None:
    if not run.model_config:
        return "the model's configuration is not reported"
    if not gpu_count:
        return "the number of GPUs that generate is not known"
    if peak is None:
        named = f"the memory bandwidth of `{run.gpu_model}` is not known"
        return named if run.gpu_model else "the GPU's name is not reported"
    if not any(trajectories.output_tokens):
        return "samples do not report their tokens"
    if any(replica is None for replica in trajectories.replicas):
        return "samples do not name their replica"
    return None


def _read_weights(
    architecture: Architecture, samples: GenSamples, trajectories: TrajectoryFacts
) -> float:
    """Return the weights that all passes of all engines read, in elements."""
    count = len(trajectories.start_ns)
    tokens = np.nan_to_num(column(trajectories.output_tokens, count)[samples.rows])
    durations_s = column(trajectories.durations_s, count)[samples.rows]
    decode_s = column(trajectories.generate_s, count)[samples.rows]
    decode_s = np.where(np.isnan(decode_s) | (decode_s <= 0), durations_s, decode_s)
    # Sequences that decode, and the tokens that they make in a second, as parts of a sample.
    decoding = np.minimum(1.0, decode_s / durations_s) * samples.rates
    rates = decoding * tokens / decode_s
    rows_of: dict[str | None, list[int]] = {}
    rows: list[int] = samples.rows.tolist()
    for position, row in enumerate(rows):
        rows_of.setdefault(trajectories.replicas[row], []).append(position)
    return math.fsum(
        _read_by_engine(
            architecture,
            samples.starts[positions],
            samples.ends[positions],
            decoding[positions],
            rates[positions],
        )
        for positions in rows_of.values()
    )


def _read_by_engine(
    architecture: Architecture, starts: Floats, ends: Floats, decoding: Floats, rates: Floats
) -> float:
    edges = np.unique(np.concatenate((starts, ends)))
    running = _sum_between(edges, starts, ends, decoding)
    tokens_per_s = _sum_between(edges, starts, ends, rates)
    is_running = running > 1e-9
    passes = np.divide(tokens_per_s, running, out=np.zeros_like(running), where=is_running)
    # An engine with less than one sequence on the mean stands still between two.
    passes *= np.minimum(1.0, running)
    return float((passes * np.diff(edges) * _weights_of_pass(architecture, running)).sum())


def _weights_of_pass(architecture: Architecture, running: Floats) -> Floats:
    """Return the weights that one pass reads: of experts, those that any sequence is routed to."""
    experts = architecture.experts
    always = float(architecture.weights - architecture.lookup_weights)
    if experts is None:
        return np.full(len(running), always)
    always -= experts.layers * experts.num_active * experts.weights
    sequences = np.maximum(1.0, running)
    chosen = 1 - (1 - experts.num_active / experts.num_experts) ** sequences
    return always + experts.layers * experts.weights * experts.num_experts * chosen


def _sum_between(edges: Floats, starts: Floats, ends: Floats, weights: Floats) -> Floats:
    changes = np.zeros(len(edges))
    np.add.at(changes, np.searchsorted(edges, starts), weights)
    np.subtract.at(changes, np.searchsorted(edges, ends), weights)
    return np.maximum(0.0, np.cumsum(changes)[:-1])


def _read_cache(
    architecture: Architecture, samples: GenSamples, trajectories: TrajectoryFacts
) -> float:
    """Return the elements of KV cache and recurrent state that decoding reads in gen."""
    count = len(trajectories.start_ns)
    made = np.nan_to_num(column(trajectories.output_tokens, count)[samples.rows])
    before = np.nan_to_num(column(trajectories.input_tokens, count)[samples.rows])
    durations_s = column(trajectories.durations_s, count)[samples.rows]
    in_gen = np.minimum(1.0, (samples.ends - samples.starts) / durations_s)
    elements = np.zeros(len(made))
    for group in architecture.attention:
        window = math.inf if group.window is None else float(group.window)
        # Tokens that still see everything before them; the others see a full window.
        growing = np.minimum(made, np.maximum(0.0, window - before))
        seen = growing * (before + growing / 2)
        if group.window is not None:
            seen += (made - growing) * window
        elements += group.layers * group.cache_width * seen
    # A recurrent state is read and written.
    elements += 2 * architecture.state_width * made
    return float((elements * in_gen).sum())


def _weight_bytes(run: RunFacts) -> int:
    return _FP8_BYTES if _says_fp8(run, "quantization") else _BF16_BYTES


def _cache_bytes(run: RunFacts) -> int:
    return _FP8_BYTES if _says_fp8(run, "kv_cache_dtype") else _BF16_BYTES


def _says_fp8(run: RunFacts, setting: str) -> bool:
    return any(
        key.rsplit(".", 1)[-1] == setting and "fp8" in value.lower()
        for key, value in run.config.items()
    )
