"""What a model architecture is reduced to, and how a configuration is read."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

LAYER_FULL = "full_attention"
LAYER_SLIDING = "sliding_attention"
LAYER_LINEAR = "linear_attention"
# No model is deeper: what is more is no configuration.
_MAX_LAYERS = 10_000


class UnknownArchitectureError(ValueError):
    """The configuration does not say enough to count operations; the message says why."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of `layers` equal layers.

    Attributes:
        score_width: Heads times (query-key width + value width).
        window: Longest distance a token looks back, None for all of the sequence.
        cache_width: Elements that one layer keeps of a token in the KV cache.
    """

    layers: int
    score_width: int
    window: int | None = None
    cache_width: int = 0


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts of `layers` equal layers.

    Attributes:
        num_experts, num_active: Of a layer: all, and those that work on one token.
        weights: Matrix elements of one expert.
    """

    layers: int
    num_experts: int
    num_active: int
    weights: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """What one forward pass multiplies.

    Attributes:
        weights: Matrix elements that every token passes through, all layers.
        attention: Groups of layers with causal attention.
        recurrence_flops: FLOPs a token of linear recurrences, forward and backward, all layers.
        lookup_weights: The part of `weights` that is the input embedding: counted as FLOPs by
            convention, but one row of it is read for a token.
        experts: Routed experts, whose active part is in `weights`; None in a dense model.
        state_width: Elements of a sequence's recurrent state, all layers.
    """

    weights: int
    attention: tuple[Attention, ...]
    recurrence_flops: int = 0
    lookup_weights: int = 0
    experts: Experts | None = None
    state_width: int = 0

    @property
    def num_parameters(self) -> int:
        """Matrix elements of the whole model, both embeddings and all experts counted."""
        experts = self.experts
        if experts is None:
            return self.weights
        idle = experts.num_experts - experts.num_active
        return self.weights + experts.layers * idle * experts.weights


@dataclass(frozen=True, slots=True)
class VisionTower:
    """The vision encoder of a vision-language model; attention looks both ways."""

    weights: int
    attention: tuple[Attention, ...]


class Fields:
    """Reads a configuration and says which field is missing."""

    def __init__(self, config: Mapping[str, object]) -> None:
        self._config = config

    def number(self, *names: str) -> int:
        """Return the first of `names` that is a number."""
        for name in names:
            value = self.optional_number(name)
            if value is not None:
                return value
        raise UnknownArchitectureError(f"the model configuration lacks `{names[0]}`")

    def optional_number(self, name: str) -> int | None:
        """Return a number or None."""
        value = self._config.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return int(value)
        return None

    def num_layers(self) -> int:
        """Return how many layers the decoder has."""
        layers = self.number("num_hidden_layers")
        if not 1 <= layers <= _MAX_LAYERS:
            raise UnknownArchitectureError(f"no model has {layers} layers")
        return layers

    def names(self, name: str) -> list[str] | None:
        """Return a list of words or None."""
        value = self._config.get(name)
        if not isinstance(value, list | tuple):
            return None
        return [str(item) for item in cast("Sequence[object]", value)]

    def part(self, name: str) -> "Fields | None":
        """Return a nested configuration or None."""
        value = self._config.get(name)
        return Fields(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else None
