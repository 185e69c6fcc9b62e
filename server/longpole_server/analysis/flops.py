"""Floating point operations of one training pass over a batch of sequences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlopsCount:
    """FLOPs, or None with the reason why they cannot be counted."""

    flops: float | None
    reason: str | None = None


def count_flops(
    model_config: Mapping[str, object] | None,
    sequence_lengths: Sequence[float],
    image_lengths: Sequence[int] = (),
) -> FlopsCount:
    """Count forward and backward FLOPs of one pass over sequences (lengths in tokens)."""
    raise NotImplementedError
