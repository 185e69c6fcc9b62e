"""Model architectures, reduced to what arithmetic needs.

A model is described by the weights that every token passes through, by the attention that grows
with the square of the length, and by recurrences that grow with the length alone. Fields are
those of Hugging Face configurations. Embeddings and output head are both counted, recomputation
is not: the same conventions as verl's counter, so that figures can be compared.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

LAYER_FULL = "full_attention"
LAYER_SLIDING = "sliding_attention"
LAYER_LINEAR = "linear_attention"


class UnknownArchitectureError(ValueError):
    """The configuration does not say enough to count operations; the message says why."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Causal attention of `layers` equal layers.

    Attributes:
        score_width: Heads times (query-key width + value width).
        window: Longest distance a token looks back, None for all of the sequence.
    """

    layers: int
    score_width: int
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Architecture:
    """What one forward pass multiplies.

    Attributes:
        weights: Matrix elements that every token passes through, all layers.
        attention: Groups of layers with causal attention.
        recurrence_flops: FLOPs a token of linear recurrences, forward and backward, all layers.
    """

    weights: int
    attention: tuple[Attention, ...]
    recurrence_flops: int = 0


@dataclass(frozen=True, slots=True)
class VisionTower:
    """The vision encoder of a vision-language model; attention looks both ways."""

    weights: int
    attention: Attention


class Fields:
    """Reads a configuration and says which field is missing."""

    def __init__(self, config: Mapping[str, object]) -> None:
        self._config = config

    def number(self, *names: str) -> int:
        """Return the first of `names` that is a number."""
        for name in names:
            value = self._config.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return int(value)
        raise UnknownArchitectureError(f"the model configuration lacks `{names[0]}`")

    def optional_number(self, name: str) -> int | None:
        """Return a number or None."""
        value = self._config.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value)
        return None

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


def _head_width(fields: Fields) -> int:
    width = fields.optional_number("head_dim")
    if width:
        return width
    return fields.number("hidden_size") // fields.number("num_attention_heads")


def _embedding_weights(fields: Fields) -> int:
    return 2 * fields.number("vocab_size") * fields.number("hidden_size")


def _projection_weights(fields: Fields, head_width: int) -> int:
    """Return query, key, value and output projections of one grouped-query layer."""
    heads = fields.number("num_attention_heads")
    pairs = fields.number("num_key_value_heads", "num_attention_heads")
    return fields.number("hidden_size") * head_width * (2 * heads + 2 * pairs)


def _full_attention(fields: Fields, head_width: int) -> tuple[Attention, ...]:
    score_width = 2 * head_width * fields.number("num_attention_heads")
    return (Attention(fields.number("num_hidden_layers"), score_width),)


def _mixed_attention(
    fields: Fields, head_width: int, layer_types: list[str], window: int
) -> tuple[Attention, ...]:
    score_width = 2 * head_width * fields.number("num_attention_heads")
    num_sliding = layer_types.count(LAYER_SLIDING)
    return (
        Attention(num_sliding, score_width, window),
        Attention(len(layer_types) - num_sliding, score_width),
    )


def _grouped_query(
    fields: Fields, mlp_weights: int, attention: tuple[Attention, ...] | None = None
) -> Architecture:
    """Return a decoder of equal layers with grouped-query attention."""
    head_width = _head_width(fields)
    layer = mlp_weights + _projection_weights(fields, head_width)
    weights = layer * fields.number("num_hidden_layers") + _embedding_weights(fields)
    return Architecture(weights, attention or _full_attention(fields, head_width))


def _dense(fields: Fields) -> Architecture:
    return _grouped_query(
        fields, 3 * fields.number("hidden_size") * fields.number("intermediate_size")
    )


def _expert_weights(fields: Fields, expert_width: int, num_shared: int = 0) -> int:
    """Return router and active experts of one layer."""
    hidden = fields.number("hidden_size")
    active = fields.number("num_experts_per_tok") + num_shared
    num_experts = fields.number("num_experts", "n_routed_experts", "num_local_experts")
    return hidden * num_experts + 3 * hidden * expert_width * active


def _experts(fields: Fields) -> Architecture:
    return _grouped_query(fields, _expert_weights(fields, fields.number("moe_intermediate_size")))


def _experts_with_shared(fields: Fields) -> Architecture:
    width = fields.number("moe_intermediate_size", "expert_hidden_dim")
    return _grouped_query(
        fields, _expert_weights(fields, width, fields.number("num_shared_experts"))
    )


def _latent_attention(fields: Fields) -> Architecture:
    """Multi-head latent attention with experts after the first dense layers."""
    hidden = fields.number("hidden_size")
    heads = fields.number("num_attention_heads")
    rope = fields.number("qk_rope_head_dim")
    nope = fields.number("qk_nope_head_dim")
    value = fields.number("v_head_dim")
    kv_rank = fields.number("kv_lora_rank")
    q_rank = fields.optional_number("q_lora_rank")
    query = heads * (nope + rope)
    projections = hidden * query if q_rank is None else (hidden + query) * q_rank
    projections += hidden * (kv_rank + rope)
    projections += heads * (nope + value) * kv_rank
    projections += heads * value * hidden
    layers = fields.number("num_hidden_layers")
    num_dense = fields.number("first_k_dense_replace")
    experts = _expert_weights(
        fields, fields.number("moe_intermediate_size"), fields.number("n_shared_experts")
    )
    dense = 3 * hidden * fields.number("intermediate_size")
    weights = (
        projections * layers
        + experts * (layers - num_dense)
        + dense * num_dense
        + _embedding_weights(fields)
    )
    return Architecture(weights, (Attention(layers, heads * (nope + rope + value)),))


def _every_nth_full(layers: int, interval: int, other: str) -> list[str]:
    return [LAYER_FULL if (layer + 1) % interval == 0 else other for layer in range(layers)]


def _gemma3(fields: Fields) -> Architecture:
    layer_types = fields.names("layer_types") or _every_nth_full(
        fields.number("num_hidden_layers"),
        fields.optional_number("sliding_window_pattern") or 6,
        LAYER_SLIDING,
    )
    window = fields.optional_number("sliding_window") or 1024
    return _grouped_query(
        fields,
        3 * fields.number("hidden_size") * fields.number("intermediate_size"),
        _mixed_attention(fields, _head_width(fields), layer_types, window),
    )


def _gpt_oss(fields: Fields) -> Architecture:
    layer_types = fields.names("layer_types") or [LAYER_FULL] * fields.number("num_hidden_layers")
    window = fields.optional_number("sliding_window") or 128
    return _grouped_query(
        fields,
        _expert_weights(fields, fields.number("intermediate_size")),
        _mixed_attention(fields, _head_width(fields), layer_types, window),
    )


def _apertus(fields: Fields) -> Architecture:
    """Two matrices in the MLP, norms on query and key."""
    hidden = fields.number("hidden_size")
    norms = hidden + fields.number("num_key_value_heads") * _head_width(fields)
    return _grouped_query(fields, 2 * hidden * fields.number("intermediate_size") + norms)


def _gated_linear(fields: Fields) -> Architecture:
    """Gated delta-net layers with a gated full-attention layer every few."""
    hidden = fields.number("hidden_size")
    heads = fields.number("num_attention_heads")
    head_width = _head_width(fields)
    layers = fields.number("num_hidden_layers")
    layer_types = fields.names("layer_types") or _every_nth_full(
        layers, fields.optional_number("full_attention_interval") or 4, LAYER_LINEAR
    )
    num_full = layer_types.count(LAYER_FULL)
    num_linear = layer_types.count(LAYER_LINEAR)
    # The query projection also makes the gate.
    full = _projection_weights(fields, head_width) + hidden * heads * head_width

    key_width = fields.number("linear_key_head_dim")
    value_width = fields.number("linear_value_head_dim")
    value_heads = fields.number("linear_num_value_heads")
    keys = fields.number("linear_num_key_heads") * key_width
    values = value_heads * value_width
    linear = hidden * (2 * keys + 3 * values + 2 * value_heads)
    linear += fields.number("linear_conv_kernel_dim") * (2 * keys + values)

    if fields.optional_number("num_experts") is None:
        mlp = 3 * hidden * fields.number("intermediate_size")
    else:
        mlp = _expert_weights(fields, fields.number("moe_intermediate_size"))
        mlp += 3 * hidden * fields.number("shared_expert_intermediate_size") + hidden
    weights = mlp * layers + full * num_full + linear * num_linear + _embedding_weights(fields)
    return Architecture(
        weights,
        (Attention(num_full, 2 * head_width * heads),),
        recurrence_flops=15 * key_width * value_width * value_heads * num_linear,
    )


_DESCRIBE: Mapping[str, Callable[[Fields], Architecture]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("llama", "mistral", "qwen2", "qwen3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"), _dense
        ),
        **dict.fromkeys(("seed_oss", "mimo", "glm4v", "minicpmv", "minicpmo"), _dense),
        **dict.fromkeys(("qwen2_moe", "qwen3_moe", "qwen3_vl_moe"), _experts),
        **dict.fromkeys(("qwen3_5", "qwen3_5_moe"), _gated_linear),
        "hy_v3": _experts_with_shared,
        "deepseek_v3": _latent_attention,
        "gemma3_text": _gemma3,
        "gpt_oss": _gpt_oss,
        "apertus": _apertus,
    }
)
MODEL_TYPES = frozenset(_DESCRIBE)


def describe_architecture(config: Mapping[str, object]) -> Architecture:
    """Reduce a Hugging Face configuration to what arithmetic needs.

    Raises:
        UnknownArchitectureError: The model type or a needed field is not known.
    """
    model_type = config.get("model_type")
    describe = _DESCRIBE.get(model_type) if isinstance(model_type, str) else None
    if describe is None:
        raise UnknownArchitectureError(f"no FLOPs formula for model type `{model_type}`")
    fields = Fields(config)
    return describe(fields.part("text_config") or fields)


def describe_vision(config: Mapping[str, object]) -> VisionTower:
    """Describe the vision encoder of a vision-language model.

    Raises:
        UnknownArchitectureError: There is none, or a needed field is missing.
    """
    fields = Fields(config).part("vision_config")
    if fields is None:
        raise UnknownArchitectureError("the model configuration lacks `vision_config`")
    width = fields.number("hidden_size")
    depth = fields.number("depth")
    merged = width * fields.number("spatial_merge_size") ** 2
    merger = (fields.number("out_hidden_size") + merged) * merged
    num_mergers = 1 + len(fields.names("deepstack_visual_indexes") or ())
    patch = fields.number("in_channels") * fields.number("temporal_patch_size")
    patch *= fields.number("patch_size") ** 2
    layer = 2 * width * fields.number("intermediate_size") + 4 * width * width
    weights = width * patch + layer * depth + merger * num_mergers
    head_width = width // fields.number("num_heads")
    return VisionTower(weights, Attention(depth, 2 * head_width * fields.number("num_heads")))


def is_mixture_of_experts(config: Mapping[str, object] | None) -> bool | None:
    """Return whether only part of the weights works on a token; None without a configuration."""
    if not config:
        return None
    fields = Fields(config)
    text = fields.part("text_config") or fields
    names = ("num_experts", "n_routed_experts", "num_local_experts")
    return any((text.optional_number(name) or 0) > 1 for name in names)
