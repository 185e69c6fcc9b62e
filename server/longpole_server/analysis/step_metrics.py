"""Tokens, throughput, GPUs and MFU of a step, reported or computed, with what contradicts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longpole.conventions import metrics
from longpole_server.analysis.flops import count_flops
from longpole_server.analysis.peaks import find_peak
from longpole_server.analysis.scalar_ledger import read_step_seconds
from longpole_server.analysis.span_ledger import LedgerSpans
from longpole_server.model.facts import RunFacts, StepInputs
from longpole_server.model.step import Note

# More tokens or samples than any step has: what is above is no count.
_MAX_COUNT = 1e15
_MAX_SAMPLES = 1e7
# Mean prompt tokens of a sample, as verl, ROLL and NeMo-RL log them.
_PROMPT_MEANS = ("prompt_length/mean", "tokens/prompt_length/mean", "train/mean_prompt_length")
# Nothing is measured in such numbers, and sums of them overflow.
_LARGEST = 1e100
# How far a count derived from rounded metrics may lie from a whole number.
COUNT_TOLERANCE_RATIO = 0.02
COUNT_TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class Responses:
    """Response tokens of a step's training samples: all, a mean one's, the longest one's."""

    tokens: int | None
    mean: float | None
    longest: float | None


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """Figures of one step. None is not known; an impossible MFU is kept beside its note."""

    tokens_total: int | None
    throughput_tokens_per_s_per_gpu: float | None
    gpu_count: int | None
    mfu_actor: float | None
    mfu_infer: float | None
    mfu_step: float | None
    notes: tuple[Note, ...]
    responses: Responses


def measure_step(
    inputs: StepInputs,
    selected: LedgerSpans,
    duration_s: float | None,
    update_s: float | None = None,
) -> StepMetrics:
    """Collect a step's figures from its spans and scalars.

    Args:
        inputs: Everything known about the step.
        selected: Its spans that make the ledger.
        duration_s: Its seconds, None while it is open.
        update_s: Seconds of its actor update, all of the stage.
    """
    notes: list[Note] = []
    scalars = inputs.scalars
    tokens = _read_tokens(inputs, selected)
    derived = _derive_gpu_count(scalars, inputs, notes)
    gpu_count = inputs.run.gpu_count or derived
    _check_data_parallel(scalars, inputs.step, gpu_count, notes)
    throughput = _positive(metrics.read_metric("throughput", scalars))
    if throughput is None and tokens and duration_s and gpu_count:
        throughput = tokens / (duration_s * gpu_count)
    mfu_step = _compute_mfu_step(inputs, tokens, duration_s, gpu_count, notes)
    of_stage = None
    if mfu_step is not None and duration_s and update_s:
        of_stage = mfu_step * duration_s / update_s
    return StepMetrics(
        tokens,
        throughput,
        gpu_count,
        _read_mfu("mfu_actor", inputs, notes, of_stage),
        _read_mfu("mfu_infer", inputs, notes),
        mfu_step,
        tuple(notes),
        _read_responses(inputs, selected, tokens),
    )


def read_config_number(config: Mapping[str, str], *names: str) -> float | None:
    """Return a run setting by the last part of its dotted name, None when absent."""
    for key, text in config.items():
        if key.rsplit(".", 1)[-1] in names:
            try:
                value = float(text)
            except ValueError:
                continue
            if math.isfinite(value):
                return value
    return None


def _positive(value: float | None) -> float | None:
    return value if value is not None and 0 < value <= _LARGEST else None


def _count(value: float | None) -> float | None:
    """Return what can be a count of tokens, None otherwise."""
    known = _positive(value)
    return known if known is not None and known <= _MAX_COUNT else None


def _read_tokens(inputs: StepInputs, selected: LedgerSpans) -> int | None:
    """Return tokens that the step trained on: the loop's, else logged, else counted."""
    counted = [span.tokens_total for span in selected.loop_spans if span.tokens_total]
    if counted:
        return sum(counted)
    logged = _count(metrics.read_metric("tokens_total", inputs.scalars))
    if logged is not None:
        return round(logged)
    parts = [
        (span.tokens_prompt or 0) + (span.tokens_response or 0) for span in selected.loop_spans
    ]
    prompt = _count(metrics.read_metric("tokens_prompt", inputs.scalars))
    response = _count(metrics.read_metric("tokens_response", inputs.scalars))
    if not sum(parts) and prompt is not None and response is not None:
        parts = [round(prompt + response)]
    return sum(parts) or sum(inputs.sequence_lengths) or None


def _read_responses(inputs: StepInputs, selected: LedgerSpans, tokens: int | None) -> Responses:
    """Return how long the answers are: by the samples, else as it is logged.

    Where only means are logged, as in verl, all response tokens are their part of all tokens.
    """
    lengths = inputs.response_lengths
    if lengths:
        return Responses(sum(lengths), sum(lengths) / len(lengths), float(max(lengths)))
    scalars = inputs.scalars
    mean = _count(metrics.read_metric("response_length_mean", scalars))
    longest = _count(metrics.read_metric("response_length_max", scalars))
    if mean is not None and longest is not None and longest < mean:
        # A batch of one rank, or a maximum of something else.
        longest = None
    counted = sum(span.tokens_response or 0 for span in selected.loop_spans)
    logged = _count(metrics.read_metric("tokens_response", scalars))
    if counted or logged is not None:
        return Responses(counted or round(logged or 0), mean, longest)
    prompt = next((known for name in _PROMPT_MEANS if (known := _count(scalars.get(name)))), None)
    if tokens is None or mean is None or prompt is None:
        return Responses(None, mean, longest)
    return Responses(round(tokens * mean / (mean + prompt)), mean, longest)


def _derive_gpu_count(
    scalars: Mapping[str, float], inputs: StepInputs, notes: list[Note]
) -> int | None:
    """GPUs = tokens / (step x throughput), all three as the trainer logged them."""
    tokens = _count(metrics.read_metric("tokens_total", scalars))
    throughput = _positive(metrics.read_metric("throughput", scalars))
    step_s = read_step_seconds(scalars)
    if tokens is None or throughput is None or step_s is None:
        return None
    exact = tokens / step_s / throughput
    derived = round(exact) if _is_whole(exact) else None
    declared = inputs.run.gpu_count
    if derived is None or declared not in (None, derived):
        against = "which is no whole number" if declared is None else f"the run says {declared}"
        summary = (
            f"tokens / (step x throughput) of step {inputs.step} gives {exact:.4g} GPUs, "
            f"{against}: one of them means something else."
        )
        step = inputs.step
        notes.append(Note("gpus.contradiction", "warning", summary, "perf/throughput", step, step))
    return derived


def _is_whole(exact: float) -> bool:
    if not math.isfinite(exact):
        return False
    count = round(exact)
    return count >= 1 and abs(exact - count) <= min(COUNT_TOLERANCE, COUNT_TOLERANCE_RATIO * count)


def _check_data_parallel(
    scalars: Mapping[str, float], step: int, gpu_count: int | None, notes: list[Note]
) -> None:
    """Data parallel size = tokens / (tokens of a mean partition); must be whole and fit."""
    tokens = _count(metrics.read_metric("tokens_total", scalars))
    mean = _positive(scalars.get("global_seqlen/mean"))
    if tokens is None or mean is None:
        return
    exact = tokens / mean
    if _is_whole(exact) and (gpu_count is None or round(exact) <= gpu_count):
        return
    against = "" if gpu_count is None else f" on {gpu_count} GPUs"
    summary = f"tokens / global_seqlen/mean of step {step} gives {exact:.3g} partitions{against}."
    notes.append(Note("dp.contradiction", "info", summary, "global_seqlen/mean", step, step))


def _read_mfu(
    name: str, inputs: StepInputs, notes: list[Note], computed: float | None = None
) -> float | None:
    """Return a reported MFU. verl writes 0 for unknown; above 1 is kept with a note.

    `computed` is what stands in for an impossible one, where it can be true itself.
    """
    value = metrics.read_metric(name, inputs.scalars)
    if value is None or not math.isfinite(value):
        return None
    if value == 0.0:
        if name == "mfu_actor":
            summary = (
                "The trainer reports MFU 0, which means that it does not know the model or the GPU."
            )
            notes.append(Note("mfu.unknown", "info", summary, name, inputs.step, inputs.step))
        return None
    if value < 0.0 or value > 1.0:
        summary = (
            f"{metrics.METRICS[name].label} of {value:.4g} is impossible: the trainer divides by "
            "the wrong peak rate. It is not used."
        )
        if computed is not None and computed <= 1.0:
            summary += f" Computed over the whole stage it is {computed:.3g}."
        notes.append(Note("mfu.impossible", "warning", summary, name, inputs.step, inputs.step))
    return value


def training_lengths(inputs: StepInputs, tokens: int | None) -> Sequence[float]:
    """Return the sequence lengths, or as many equal ones as the logged means imply.

    Equal lengths understate attention a little, which grows with the square.
    """
    if inputs.sequence_lengths:
        return inputs.sequence_lengths
    prompt = _positive(inputs.scalars.get("prompt_length/mean"))
    response = _positive(metrics.read_metric("response_length_mean", inputs.scalars))
    if tokens is None or prompt is None or response is None:
        return ()
    exact = tokens / (prompt + response)
    if exact > _MAX_SAMPLES:
        return ()
    num_sequences = max(1, round(exact))
    return [tokens / num_sequences] * num_sequences


def _compute_mfu_step(
    inputs: StepInputs,
    tokens: int | None,
    duration_s: float | None,
    gpu_count: int | None,
    notes: list[Note],
) -> float | None:
    """FLOPs of all update epochs / (step x all GPUs x peak). Inference passes are not counted.

    Above 1 it is kept with a note, as a reported one is.
    """
    run = inputs.run
    peak = find_peak(run.gpu_model)
    if not duration_s or not gpu_count or peak is None:
        return None
    count = count_flops(run.model_config, training_lengths(inputs, tokens))
    if count.flops is None:
        return None
    mfu = count.flops * count_epochs(run) / (duration_s * gpu_count * peak)
    if mfu > 1.0:
        summary = (
            f"The step's MFU computes to {mfu:.4g}, which is impossible: tokens, GPU count, GPU "
            "name or model configuration are not those of the run. It is not used."
        )
        step = inputs.step
        notes.append(Note("mfu.impossible", "warning", summary, "mfu_step", step, step))
    return mfu


def count_epochs(run: RunFacts) -> float:
    """Return how often an update passes over its batch; once when the run does not say."""
    return read_config_number(run.config, "ppo_epochs", "update_epochs", "num_iterations") or 1.0
