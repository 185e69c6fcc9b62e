"""Model architectures, reduced to what arithmetic needs.

A model is described by the weights that every token passes through, by the attention that grows
with the square of the length, and by recurrences that grow with the length alone. Fields are
those of Hugging Face configurations. Embeddings and output head are both counted, recomputation
is not: the same conventions as verl's counter, so that figures can be compared.
"""

from collections.abc import Mapping

from longpole_server.analysis.architectures_decoders import DESCRIBE
from longpole_server.analysis.architectures_parts import (
    Architecture,
    Fields,
    UnknownArchitectureError,
    VisionTower,
)
from longpole_server.analysis.architectures_vision import describe_tower

MODEL_TYPES = frozenset(DESCRIBE)


def describe_architecture(config: Mapping[str, object]) -> Architecture:
    """Reduce a Hugging Face configuration to what arithmetic needs.

    Raises:
        UnknownArchitectureError: The model type or a needed field is not known.
    """
    model_type = config.get("model_type")
    describe = DESCRIBE.get(model_type) if isinstance(model_type, str) else None
    if describe is None:
        raise UnknownArchitectureError(f"no FLOPs formula for model type `{model_type}`")
    fields = Fields(config)
    try:
        return describe(fields.part("text_config") or fields)
    except ZeroDivisionError as error:
        raise UnknownArchitectureError("the model configuration holds impossible sizes") from error


def describe_vision(config: Mapping[str, object]) -> VisionTower:
    """Describe the vision encoder of a vision-language model.

    Raises:
        UnknownArchitectureError: There is none, or a needed field is missing.
    """
    fields = Fields(config).part("vision_config")
    if fields is None:
        raise UnknownArchitectureError("the model configuration lacks `vision_config`")
    return describe_tower(str(config.get("model_type")), fields)


def is_mixture_of_experts(config: Mapping[str, object] | None) -> bool | None:
    """Return whether only part of the weights works on a token; None without a configuration."""
    if not config:
        return None
    fields = Fields(config)
    text = fields.part("text_config") or fields
    names = ("num_experts", "n_routed_experts", "num_local_experts")
    return any((text.optional_number(name) or 0) > 1 for name in names)
