"""Vision encoders of vision-language models."""

from longpole_server.analysis.architectures_parts import (
    Attention,
    Fields,
    UnknownArchitectureError,
    VisionTower,
)

# A gated MLP has a third matrix.
_GATED_TYPES = frozenset({"qwen2_5_vl"})


def describe_tower(model_type: str, fields: Fields) -> VisionTower:
    """Describe the encoder of a model from its `vision_config`.

    Raises:
        UnknownArchitectureError: A needed field is missing.
    """
    embed = fields.optional_number("embed_dim")
    if embed is not None:
        # Qwen2-VL calls the width `embed_dim`, and what goes out of the tower `hidden_size`.
        width, out_width = embed, fields.number("hidden_size")
        mlp_width = embed * fields.number("mlp_ratio")
    else:
        width, out_width = fields.number("hidden_size"), fields.number("out_hidden_size")
        mlp_width = fields.number("intermediate_size")
    depth = fields.number("depth")
    merged = width * fields.number("spatial_merge_size") ** 2
    merger = (out_width + merged) * merged
    num_mergers = 1 + len(fields.names("deepstack_visual_indexes") or ())
    patch = fields.number("in_channels", "in_chans")
    patch *= fields.number("temporal_patch_size") * fields.number("patch_size") ** 2
    layer = (3 if model_type in _GATED_TYPES else 2) * width * mlp_width + 4 * width * width
    weights = width * patch + layer * depth + merger * num_mergers
    return VisionTower(weights, _attention(fields, depth, width))


def _attention(fields: Fields, depth: int, width: int) -> tuple[Attention, ...]:
    heads = fields.number("num_heads")
    if heads < 1 or width < heads:
        raise UnknownArchitectureError("the vision tower's heads do not fit its width")
    score_width = 2 * (width // heads) * heads
    full = fields.names("fullatt_block_indexes")
    window = fields.optional_number("window_size")
    if full is None or not window:
        return (Attention(depth, score_width),)
    # The window is given in pixels of each side.
    patches = (window // fields.number("patch_size")) ** 2
    return (
        Attention(len(full), score_width),
        Attention(depth - len(full), score_width, patches),
    )
