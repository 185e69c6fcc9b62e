import pytest

from longpole_server.analysis.flops import count_flops

SHORT = [512, 1024, 2048]
LONG = [4096, 4096, 4096]

VISION = {
    "deepstack_visual_indexes": [8, 16, 24],
    "depth": 27,
    "hidden_size": 1152,
    "in_channels": 3,
    "intermediate_size": 4304,
    "num_heads": 16,
    "out_hidden_size": 4096,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
PLAIN_VISION = {key: value for key, value in VISION.items() if key != "deepstack_visual_indexes"}


def decoder(model_type: str, vocab: int, hidden: int, layers: int, heads: int, pairs: int):
    return {
        "model_type": model_type,
        "vocab_size": vocab,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": pairs,
    }


QWEN3 = decoder("qwen3", 151936, 4096, 36, 32, 8) | {"intermediate_size": 12288, "head_dim": 128}
QWEN3_MOE = decoder("qwen3_moe", 151936, 2048, 48, 32, 4) | {
    "head_dim": 128,
    "moe_intermediate_size": 768,
    "num_experts_per_tok": 8,
    "num_experts": 128,
}
LINEAR = {
    "head_dim": 256,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "full_attention_interval": 4,
}
QWEN3_5_MOE = (
    decoder("qwen3_5_moe_text", 248320, 2048, 40, 16, 2)
    | LINEAR
    | {
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "num_experts_per_tok": 8,
        "num_experts": 256,
    }
)
MODELS = {
    "llama": decoder("llama", 32000, 4096, 32, 32, 32) | {"intermediate_size": 11008},
    "qwen2": decoder("qwen2", 152064, 3584, 28, 28, 4) | {"intermediate_size": 18944},
    "qwen3": QWEN3,
    "qwen3_moe": QWEN3_MOE,
    "deepseek_v3": {
        "model_type": "deepseek_v3",
        "vocab_size": 129280,
        "hidden_size": 7168,
        "moe_intermediate_size": 2048,
        "num_hidden_layers": 61,
        "first_k_dense_replace": 3,
        "num_attention_heads": 128,
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
        "n_shared_experts": 1,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "intermediate_size": 18432,
        "qk_nope_head_dim": 128,
        "q_lora_rank": 1536,
    },
    "mistral": decoder("mistral", 131072, 5120, 40, 32, 8)
    | {"intermediate_size": 32768, "head_dim": 128},
    "gemma3_text": decoder("gemma3_text", 262208, 3840, 48, 16, 8)
    | {
        "intermediate_size": 15360,
        "head_dim": 256,
        "sliding_window": 1024,
        "sliding_window_pattern": 6,
    },
    "gpt_oss": decoder("gpt_oss", 201088, 2880, 24, 64, 8)
    | {
        "head_dim": 64,
        "intermediate_size": 2880,
        "num_local_experts": 32,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
    },
    "apertus": decoder("apertus", 131072, 4096, 32, 32, 32) | {"intermediate_size": 21504},
    "qwen3_5": {
        "model_type": "qwen3_5",
        "text_config": decoder("qwen3_5_text", 248320, 4096, 32, 16, 4)
        | LINEAR
        | {"intermediate_size": 12288},
        "vision_config": PLAIN_VISION,
    },
    "qwen3_5_moe": {
        "model_type": "qwen3_5_moe",
        "text_config": QWEN3_5_MOE,
        "vision_config": PLAIN_VISION | {"out_hidden_size": 2048},
    },
    "qwen3_vl": {"model_type": "qwen3_vl", "text_config": QWEN3, "vision_config": VISION},
    "qwen3_vl_moe": {
        "model_type": "qwen3_vl_moe",
        "text_config": QWEN3_MOE,
        "vision_config": VISION,
    },
}

PUBLISHED = {
    "llama": (149226491215872, 536372695793664),
    "qwen2": (167073690943488, 591764889010176),
    "qwen3": (180997438046208, 648394032807936),
    "qwen3_moe": (78593069678592, 306570470621184),
    "deepseek_v3": (848766538088448, 3145850406567936),
    "mistral": (512303699066880, 1787393589903360),
    "gemma3_text": (279084659638272, 963929979224064),
    "gpt_oss": (91780464771072, 323953008574464),
    "apertus": (194825353691136, 692711652851712),
    "qwen3_5": (206090394402816, 724521757704192),
    "qwen3_5_moe": (88082762170368, 321470349705216),
    "qwen3_vl": (195379819708416, 709446422495232),
    "qwen3_vl_moe": (92975451340800, 367622860308480),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_check_values(name: str):
    images = "vision_config" in MODELS[name]
    for lengths, published in zip((SHORT, LONG), PUBLISHED[name], strict=True):
        count = count_flops(MODELS[name], lengths, lengths if images else ())
        assert count.flops == published
        assert count.reason is None


@pytest.mark.parametrize(
    ("config", "lengths", "reason"),
    [
        (None, SHORT, "the run did not send its model configuration"),
        (QWEN3, [], "sequence lengths are not known"),
        ({"model_type": "mamba"}, SHORT, "no FLOPs formula for model type `mamba`"),
        ({}, SHORT, "the run did not send its model configuration"),
        ({"hidden_size": 1}, SHORT, "no FLOPs formula for model type `None`"),
        (
            {k: v for k, v in QWEN3.items() if k != "vocab_size"},
            SHORT,
            "the model configuration lacks `vocab_size`",
        ),
    ],
)
def test_unknown_says_why(config: dict[str, object] | None, lengths: list[int], reason: str):
    count = count_flops(config, lengths)
    assert count.flops is None
    assert count.reason == reason


def test_text_alone_needs_no_vision_tower():
    text = count_flops({"model_type": "qwen3_vl", "text_config": QWEN3}, SHORT)
    assert text.flops == PUBLISHED["qwen3"][0]


def test_gated_linear_layers_of_the_older_name():
    next_model = QWEN3_5_MOE | {"model_type": "qwen3_next"}
    newer = MODELS["qwen3_5_moe"]
    assert count_flops(next_model, SHORT).flops == count_flops(newer, SHORT).flops


def test_layers_with_and_without_experts():
    all_experts = count_flops(QWEN3_MOE, SHORT).flops
    half = QWEN3_MOE | {"decoder_sparse_step": 2, "intermediate_size": 768}
    but_one = QWEN3_MOE | {"mlp_only_layers": [0], "intermediate_size": 768}
    tokens = sum(SHORT)
    # A dense layer of one expert's width, instead of eight experts and the router.
    fewer = 6 * tokens * (7 * 3 * 2048 * 768 + 2048 * 128)
    assert all_experts is not None
    assert count_flops(half, SHORT).flops == all_experts - 24 * fewer
    assert count_flops(but_one, SHORT).flops == all_experts - fewer


def test_shared_experts_count():
    plain = decoder("qwen2_moe", 151936, 2048, 24, 16, 16) | {
        "moe_intermediate_size": 1408,
        "num_experts": 60,
        "num_experts_per_tok": 4,
    }
    shared = plain | {"shared_expert_intermediate_size": 5632}
    added = 6 * sum(SHORT) * 24 * (3 * 2048 * 5632 + 2048)
    alone = count_flops(plain, SHORT).flops
    assert alone is not None
    assert count_flops(shared, SHORT).flops == alone + added


def test_windows_of_a_vision_tower():
    tower = {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "in_chans": 3,
        "out_hidden_size": 3584,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
    }
    text = MODELS["qwen2"]
    config = {"model_type": "qwen2_5_vl", "text_config": text, "vision_config": tower}
    with_image = count_flops(config, SHORT, [1024]).flops
    merged = 1280 * 4
    weights = 1280 * 3 * 2 * 14 * 14 + 32 * (3 * 1280 * 3420 + 4 * 1280 * 1280)
    weights += (3584 + merged) * merged
    pairs = 4 * 1024 * 1024 + 28 * 1024 * 64
    assert with_image == PUBLISHED["qwen2"][0] + 6 * weights * 1024 + 12 * pairs * 1280
    older = tower | {"embed_dim": 1280, "mlp_ratio": 4, "hidden_size": 3584}
    older_config = config | {"model_type": "qwen2_vl", "vision_config": older}
    assert count_flops(older_config, SHORT, [1024]).flops is not None


@pytest.mark.parametrize(
    "broken",
    [
        {"num_hidden_layers": 10**12},
        {"num_hidden_layers": 0},
        {"num_hidden_layers": float("inf")},
        {"num_attention_heads": 0, "head_dim": None},
    ],
)
def test_sizes_that_no_model_has(broken: dict[str, object]):
    count = count_flops(QWEN3 | broken, SHORT)
    assert count.flops is None
    assert count.reason
