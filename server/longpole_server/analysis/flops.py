"""Floating point operations of training on a batch of sequences.

Matrices cost 2 FLOPs an element and token forward and 4 backward. Causal attention costs half of
the full square: 3 s^2 (query-key width + value width) a head and layer, forward and backward
together. Vision attention is not causal and costs twice that. Check values are those that verl
publishes (`tests/utils/test_flops_counter.py` there).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longpole_server.analysis.architectures import describe_architecture, describe_vision
from longpole_server.analysis.architectures_parts import (
    Attention,
    UnknownArchitectureError,
    VisionTower,
)


@dataclass(frozen=True, slots=True)
class FlopsCount:
    """FLOPs of one forward and backward pass, or None with the reason why they are unknown."""

    flops: float | None
    reason: str | None = None


def _attention_flops(attention: Attention, lengths: Sequence[float]) -> float:
    window = attention.window
    pairs = sum(length * (length if window is None else min(length, window)) for length in lengths)
    return 3 * pairs * attention.score_width * attention.layers


def _vision_flops(tower: VisionTower, image_lengths: Sequence[int]) -> float:
    attention = sum(_attention_flops(group, image_lengths) for group in tower.attention)
    return 6 * tower.weights * sum(image_lengths) + 2 * attention


def count_flops(
    model_config: Mapping[str, object] | None,
    sequence_lengths: Sequence[float],
    image_lengths: Sequence[int] = (),
) -> FlopsCount:
    """Count one forward and backward pass.

    Args:
        model_config: Hugging Face configuration, None when the run did not send it.
        sequence_lengths: Prompt and response tokens of every sequence.
        image_lengths: Patches of every image, for vision-language models.

    Returns:
        FLOPs (an inference pass alone is a third of them), or the reason why not.
    """
    if not model_config:
        return FlopsCount(None, "the run did not send its model configuration")
    if not sequence_lengths:
        return FlopsCount(None, "sequence lengths are not known")
    try:
        architecture = describe_architecture(model_config)
        vision = describe_vision(model_config) if image_lengths else None
    except UnknownArchitectureError as error:
        return FlopsCount(None, str(error))
    num_tokens = sum(sequence_lengths)
    flops = 6 * architecture.weights * num_tokens + architecture.recurrence_flops * num_tokens
    flops += sum(_attention_flops(group, sequence_lengths) for group in architecture.attention)
    if vision is not None:
        flops += _vision_flops(vision, image_lengths)
    return FlopsCount(float(flops))
