"""Decoders by model type: which matrices and attention they are made of.

Formulas follow verl's counter (`verl/utils/flops_counter.py`), except that shared experts and
layers without experts of `qwen2_moe` and its like are counted as well.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from longpole_server.analysis.architectures_parts import (
    LAYER_FULL,
    LAYER_LINEAR,
    LAYER_SLIDING,
    Architecture,
    Attention,
    Experts,
    Fields,
)


def _head_width(fields: Fields) -> int:
    width = fields.optional_number("head_dim")
    if width:
        return width
    return fields.number("hidden_size") // fields.number("num_attention_heads")


def _embedding_weights(fields: Fields) -> int:
    return fields.number("vocab_size") * fields.number("hidden_size")


def _dense_weights(fields: Fields) -> int:
    """Return gate, up and down matrices of one dense MLP."""
    return 3 * fields.number("hidden_size") * fields.number("intermediate_size")


def _num_pairs(fields: Fields) -> int:
    return fields.number("num_key_value_heads", "num_attention_heads")


def _projection_weights(fields: Fields) -> int:
    """Return query, key, value and output projections of one grouped-query layer."""
    heads = fields.number("num_attention_heads")
    width = fields.number("hidden_size") * _head_width(fields)
    return width * (2 * heads + 2 * _num_pairs(fields))


def _grouped_attention(fields: Fields, layers: int, window: int | None = None) -> Attention:
    head_width = _head_width(fields)
    score_width = 2 * head_width * fields.number("num_attention_heads")
    return Attention(layers, score_width, window, 2 * head_width * _num_pairs(fields))


def _mixed_attention(fields: Fields, layer_types: list[str], window: int) -> tuple[Attention, ...]:
    num_sliding = layer_types.count(LAYER_SLIDING)
    return (
        _grouped_attention(fields, num_sliding, window),
        _grouped_attention(fields, len(layer_types) - num_sliding),
    )


def _every_nth_full(layers: int, interval: int, other: str) -> list[str]:
    return [LAYER_FULL if (layer + 1) % interval == 0 else other for layer in range(layers)]


def _decoder(
    fields: Fields,
    layer_weights: int,
    attention: tuple[Attention, ...] | None = None,
    experts: Experts | None = None,
    outside_experts: int = 0,
) -> Architecture:
    """Return a decoder of layers with grouped-query attention.

    Args:
        fields: Its configuration.
        layer_weights: Elements of one layer beside projections and routed experts.
        attention: Groups of layers, full attention in all of them when not given.
        experts: Routed experts of the layers that have some.
        outside_experts: Elements of all layers together that are in none of these.
    """
    layers = fields.num_layers()
    lookup = _embedding_weights(fields)
    weights = (layer_weights + _projection_weights(fields)) * layers + 2 * lookup
    weights += outside_experts
    if experts is not None:
        weights += experts.layers * experts.num_active * experts.weights
    return Architecture(
        weights,
        attention or (_grouped_attention(fields, layers),),
        lookup_weights=lookup,
        experts=experts,
    )


def _dense(fields: Fields) -> Architecture:
    return _decoder(fields, _dense_weights(fields))


def _read_experts(fields: Fields, layers: int, width: int) -> Experts:
    return Experts(
        layers,
        fields.number("num_experts", "n_routed_experts", "num_local_experts"),
        fields.number("num_experts_per_tok"),
        3 * fields.number("hidden_size") * width,
    )


def _router_weights(fields: Fields, experts: Experts) -> int:
    return fields.number("hidden_size") * experts.num_experts


def _experts(fields: Fields) -> Architecture:
    """Experts in each layer, in every few, or in all but some."""
    layers = fields.num_layers()
    every = fields.optional_number("decoder_sparse_step") or 1
    dense = set(fields.names("mlp_only_layers") or ())
    num_sparse = sum(
        (layer + 1) % every == 0 and str(layer) not in dense for layer in range(layers)
    )
    experts = _read_experts(fields, num_sparse, fields.number("moe_intermediate_size"))
    each = _router_weights(fields, experts)
    shared = fields.optional_number("shared_expert_intermediate_size")
    if shared:
        # The shared expert has a gate of its own.
        each += 3 * fields.number("hidden_size") * shared + fields.number("hidden_size")
    outside = each * num_sparse
    if num_sparse < layers:
        outside += _dense_weights(fields) * (layers - num_sparse)
    return _decoder(fields, 0, experts=experts, outside_experts=outside)


def _experts_alone(fields: Fields) -> Architecture:
    """Experts of the MLP's own width in each layer (Mixtral)."""
    layers = fields.num_layers()
    experts = _read_experts(fields, layers, fields.number("intermediate_size"))
    return _decoder(fields, _router_weights(fields, experts), experts=experts)


def _experts_with_shared(fields: Fields) -> Architecture:
    layers = fields.num_layers()
    width = fields.number("moe_intermediate_size", "expert_hidden_dim")
    experts = _read_experts(fields, layers, width)
    shared = fields.number("num_shared_experts") * experts.weights
    return _decoder(fields, _router_weights(fields, experts) + shared, experts=experts)


def _experts_after_dense(fields: Fields) -> Architecture:
    """Dense layers first, then routed and shared experts, with grouped-query attention."""
    num_dense = fields.number("first_k_dense_replace")
    num_sparse = fields.num_layers() - num_dense
    experts = _read_experts(fields, num_sparse, fields.number("moe_intermediate_size"))
    shared = fields.number("n_shared_experts") * experts.weights
    outside = (_router_weights(fields, experts) + shared) * num_sparse
    outside += _dense_weights(fields) * num_dense
    return _decoder(fields, 0, experts=experts, outside_experts=outside)


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
    layers = fields.num_layers()
    num_dense = fields.number("first_k_dense_replace")
    experts = _read_experts(fields, layers - num_dense, fields.number("moe_intermediate_size"))
    shared = fields.number("n_shared_experts") * experts.weights
    sparse = _router_weights(fields, experts) + shared + experts.num_active * experts.weights
    lookup = _embedding_weights(fields)
    return Architecture(
        projections * layers
        + sparse * experts.layers
        + _dense_weights(fields) * num_dense
        + 2 * lookup,
        (Attention(layers, heads * (nope + rope + value), None, kv_rank + rope),),
        lookup_weights=lookup,
        experts=experts,
    )


def _gemma2(fields: Fields) -> Architecture:
    layers = fields.num_layers()
    layer_types = fields.names("layer_types") or _every_nth_full(layers, 2, LAYER_SLIDING)
    window = fields.optional_number("sliding_window") or 4096
    return _decoder(fields, _dense_weights(fields), _mixed_attention(fields, layer_types, window))


def _gemma3(fields: Fields) -> Architecture:
    layer_types = fields.names("layer_types") or _every_nth_full(
        fields.num_layers(),
        fields.optional_number("sliding_window_pattern") or 6,
        LAYER_SLIDING,
    )
    window = fields.optional_number("sliding_window") or 1024
    return _decoder(fields, _dense_weights(fields), _mixed_attention(fields, layer_types, window))


def _gpt_oss(fields: Fields) -> Architecture:
    layers = fields.num_layers()
    layer_types = fields.names("layer_types") or _every_nth_full(layers, 2, LAYER_SLIDING)
    window = fields.optional_number("sliding_window") or 128
    experts = _read_experts(fields, layers, fields.number("intermediate_size"))
    return _decoder(
        fields,
        _router_weights(fields, experts),
        _mixed_attention(fields, layer_types, window),
        experts,
    )


def _apertus(fields: Fields) -> Architecture:
    """Two matrices in the MLP, norms on query and key."""
    hidden = fields.number("hidden_size")
    norms = hidden + fields.number("num_key_value_heads") * _head_width(fields)
    return _decoder(fields, 2 * hidden * fields.number("intermediate_size") + norms)


def _gated_linear(fields: Fields) -> Architecture:
    """Gated delta-net layers with a gated full-attention layer every few."""
    hidden = fields.number("hidden_size")
    layers = fields.num_layers()
    layer_types = fields.names("layer_types") or _every_nth_full(
        layers, fields.optional_number("full_attention_interval") or 4, LAYER_LINEAR
    )
    num_full, num_linear = layer_types.count(LAYER_FULL), layer_types.count(LAYER_LINEAR)
    # The query projection also makes the gate.
    gate = hidden * fields.number("num_attention_heads") * _head_width(fields)
    full = _projection_weights(fields) + gate

    key_width = fields.number("linear_key_head_dim")
    value_width = fields.number("linear_value_head_dim")
    value_heads = fields.number("linear_num_value_heads")
    keys = fields.number("linear_num_key_heads") * key_width
    values = value_heads * value_width
    linear = hidden * (2 * keys + 3 * values + 2 * value_heads)
    linear += fields.number("linear_conv_kernel_dim") * (2 * keys + values)

    experts = None
    if fields.optional_number("num_experts") is None:
        mlp = _dense_weights(fields)
    else:
        experts = _read_experts(fields, layers, fields.number("moe_intermediate_size"))
        mlp = _router_weights(fields, experts) + experts.num_active * experts.weights
        mlp += 3 * hidden * fields.number("shared_expert_intermediate_size") + hidden
    lookup = _embedding_weights(fields)
    state = key_width * value_width * value_heads
    return Architecture(
        mlp * layers + full * num_full + linear * num_linear + 2 * lookup,
        (_grouped_attention(fields, num_full),),
        recurrence_flops=15 * state * num_linear,
        lookup_weights=lookup,
        experts=experts,
        state_width=state * num_linear,
    )


DESCRIBE: Mapping[str, Callable[[Fields], Architecture]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("llama", "mistral", "mistral3", "phi3", "seed_oss", "mimo", "minicpmv", "minicpmo"),
            _dense,
        ),
        **dict.fromkeys(("qwen2", "qwen3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "glm4v"), _dense),
        **dict.fromkeys(("qwen2_moe", "qwen3_moe", "qwen3_vl_moe"), _experts),
        **dict.fromkeys(("qwen3_next", "qwen3_5", "qwen3_5_moe"), _gated_linear),
        **dict.fromkeys(("deepseek_v2", "deepseek_v3", "kimi_k2"), _latent_attention),
        **dict.fromkeys(("gemma3", "gemma3_text"), _gemma3),
        "mixtral": _experts_alone,
        "hy_v3": _experts_with_shared,
        "glm4_moe": _experts_after_dense,
        "gemma2": _gemma2,
        "gpt_oss": _gpt_oss,
        "apertus": _apertus,
    }
)
