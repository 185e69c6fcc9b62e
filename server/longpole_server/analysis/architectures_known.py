"""Configurations of well-known models by name: for runs and logs that say no more than that.

Numbers are copied from the models' public `config.json`, as kept in these repositories:
AI-Hypercomputer/maxtext (`checkpoint_conversion/utils/hf_model_configs.py` and
`configs/models/*.yml`, at e591f30), mlc-ai/mlc-llm (`model/model_preset.py`, at 79d603f) and
NVIDIA/NeMo (`nemo/collections/llm/gpt/model/qwen2.py`, at 6356bb8; `vlm/qwen2vl/model/qwen2vl.py`,
at 0eed93a).
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

Config = Mapping[str, object]

# Words of a name that say how a model was trained or stored, not what it is.
_NOT_SIZE = frozenset(
    {"instruct", "base", "chat", "it", "hf", "thinking", "preview", "meta", "fp8", "bf16", "awq"}
    | {"gptq", "int4", "int8", "0528", "0324", "2507", "v0.1", "v0.2"}
)
_PART = re.compile(r"[-_ ]+")


def _decoder(
    model_type: str,
    vocab: int,
    hidden: int,
    mlp: int,
    layers: int,
    heads: int,
    pairs: int,
    head_width: int | None = None,
) -> dict[str, object]:
    """Return a configuration from its vocabulary, widths, and numbers of layers and heads."""
    config: dict[str, object] = {
        "model_type": model_type,
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": mlp,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": pairs,
    }
    return config if head_width is None else config | {"head_dim": head_width}


def _experts(width: int, num_experts: int, num_active: int) -> dict[str, object]:
    return {
        "moe_intermediate_size": width,
        "num_experts": num_experts,
        "num_experts_per_tok": num_active,
    }


def _gated_linear(value_heads: int) -> dict[str, object]:
    return {
        "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": value_heads,
    }


def _local_experts(num_experts: int, num_active: int) -> dict[str, object]:
    return {"num_local_experts": num_experts, "num_experts_per_tok": num_active}


def _latent(num_experts: int, num_shared: int, num_dense: int, num_active: int) -> Config:
    return {
        "n_routed_experts": num_experts,
        "n_shared_experts": num_shared,
        "first_k_dense_replace": num_dense,
        "num_experts_per_tok": num_active,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    }


def _qwen25_vision(out: int) -> dict[str, object]:
    return {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "in_channels": 3,
        "out_hidden_size": out,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
    }


def _qwen3_vision(depth: int, hidden: int, mlp: int, out: int, mergers: list[int]) -> Config:
    return {
        "depth": depth,
        "hidden_size": hidden,
        "intermediate_size": mlp,
        "num_heads": 16,
        "in_channels": 3,
        "out_hidden_size": out,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "deepstack_visual_indexes": mergers,
    }


def _with_vision(model_type: str, text: Config, vision: Config) -> Config:
    return {"model_type": model_type, "text_config": text, "vision_config": vision}


_QWEN2_05B = _decoder("qwen2", 151936, 896, 4864, 24, 14, 2)
_QWEN2_15B = _decoder("qwen2", 151936, 1536, 8960, 28, 12, 2)
_QWEN25_3B = _decoder("qwen2", 151936, 2048, 11008, 36, 16, 2)
_QWEN2_7B = _decoder("qwen2", 152064, 3584, 18944, 28, 28, 4)
_QWEN2_72B = _decoder("qwen2", 152064, 8192, 29568, 80, 64, 8)
_QWEN3_17B = _decoder("qwen3", 151936, 2048, 6144, 28, 16, 8, 128)
_QWEN3_4B = _decoder("qwen3", 151936, 2560, 9728, 36, 32, 8, 128)
_QWEN3_30B = _decoder("qwen3_moe", 151936, 2048, 6144, 48, 32, 4, 128) | _experts(768, 128, 8)
_LLAMA31_70B = _decoder("llama", 128256, 8192, 28672, 80, 64, 8)
_DEEPSEEK_V3 = {
    **_decoder("deepseek_v3", 129280, 7168, 18432, 61, 128, 128),
    **_latent(256, 1, 3, 8),
    "moe_intermediate_size": 2048,
    "q_lora_rank": 1536,
}

_KNOWN: Mapping[str, Config] = MappingProxyType(
    {
        "qwen2-0.5b": _QWEN2_05B,
        "qwen2-1.5b": _QWEN2_15B,
        "qwen2-7b": _QWEN2_7B,
        "qwen2-72b": _QWEN2_72B,
        "qwen2.5-0.5b": _QWEN2_05B,
        "qwen2.5-1.5b": _QWEN2_15B,
        "qwen2.5-3b": _QWEN25_3B,
        "qwen2.5-7b": _QWEN2_7B,
        "qwen2.5-14b": _decoder("qwen2", 152064, 5120, 13824, 48, 40, 8),
        "qwen2.5-32b": _decoder("qwen2", 152064, 5120, 27648, 64, 40, 8),
        "qwen2.5-72b": _QWEN2_72B,
        "qwen2.5-vl-3b": _with_vision("qwen2_5_vl", _QWEN25_3B, _qwen25_vision(2048)),
        "qwen2.5-vl-7b": _with_vision("qwen2_5_vl", _QWEN2_7B, _qwen25_vision(3584)),
        "qwen3-0.6b": _decoder("qwen3", 151936, 1024, 3072, 28, 16, 8, 128),
        "qwen3-1.7b": _QWEN3_17B,
        "qwen3-4b": _QWEN3_4B,
        "qwen3-8b": _decoder("qwen3", 151936, 4096, 12288, 36, 32, 8, 128),
        "qwen3-14b": _decoder("qwen3", 151936, 5120, 17408, 40, 40, 8, 128),
        "qwen3-32b": _decoder("qwen3", 151936, 5120, 25600, 64, 64, 8, 128),
        "qwen3-30b-a3b": _QWEN3_30B,
        "qwen3-235b-a22b": _decoder("qwen3_moe", 151936, 4096, 12288, 94, 64, 4, 128)
        | _experts(1536, 128, 8),
        "qwen3-coder-480b-a35b": _decoder("qwen3_moe", 151936, 6144, 8192, 62, 96, 8, 128)
        | _experts(2560, 160, 8),
        "qwen3-next-80b-a3b": _decoder("qwen3_next", 151936, 2048, 5120, 48, 16, 2, 256)
        | _experts(512, 512, 10)
        | _gated_linear(32)
        | {"shared_expert_intermediate_size": 512},
        "qwen3.5-35b-a3b": _with_vision(
            "qwen3_5_moe",
            _decoder("qwen3_5_moe_text", 248320, 2048, 512, 40, 16, 2, 256)
            | _experts(512, 256, 8)
            | _gated_linear(32)
            | {"shared_expert_intermediate_size": 512},
            _qwen3_vision(27, 1152, 4304, 2048, []),
        ),
        "qwen3.5-397b-a17b": _with_vision(
            "qwen3_5_moe",
            _decoder("qwen3_5_moe_text", 248320, 4096, 1024, 60, 32, 2, 256)
            | _experts(1024, 512, 10)
            | _gated_linear(64)
            | {"shared_expert_intermediate_size": 1024},
            _qwen3_vision(27, 1152, 4304, 4096, []),
        ),
        "qwen3-vl-2b": _with_vision(
            "qwen3_vl", _QWEN3_17B, _qwen3_vision(24, 1024, 4096, 2048, [5, 11, 17])
        ),
        "qwen3-vl-4b": _with_vision(
            "qwen3_vl", _QWEN3_4B, _qwen3_vision(24, 1024, 4096, 2560, [5, 11, 17])
        ),
        "qwen3-vl-30b-a3b": _with_vision(
            "qwen3_vl_moe", _QWEN3_30B, _qwen3_vision(27, 1152, 4304, 2048, [8, 16, 24])
        ),
        "llama-3.1-8b": _decoder("llama", 128256, 4096, 14336, 32, 32, 8),
        "llama-3.1-70b": _LLAMA31_70B,
        "llama-3.1-405b": _decoder("llama", 128256, 16384, 53248, 126, 128, 8),
        "llama-3.2-1b": _decoder("llama", 128256, 2048, 8192, 16, 32, 8, 64),
        "llama-3.2-3b": _decoder("llama", 128256, 3072, 8192, 28, 24, 8, 128),
        "llama-3.3-70b": _LLAMA31_70B,
        "mistral-7b": _decoder("mistral", 32000, 4096, 14336, 32, 32, 8),
        "mistral-7b-v0.3": _decoder("mistral", 32768, 4096, 14336, 32, 32, 8),
        "mixtral-8x7b": _decoder("mixtral", 32000, 4096, 14336, 32, 32, 8) | _local_experts(8, 2),
        "mixtral-8x22b": _decoder("mixtral", 32768, 6144, 16384, 56, 48, 8) | _local_experts(8, 2),
        "deepseek-v2-lite": {
            **_decoder("deepseek_v2", 102400, 2048, 10944, 27, 16, 16),
            **_latent(64, 2, 1, 6),
            "moe_intermediate_size": 1408,
        },
        "deepseek-v3": _DEEPSEEK_V3,
        "deepseek-v3.1": _DEEPSEEK_V3,
        "deepseek-r1": _DEEPSEEK_V3,
        "kimi-k2": {
            **_decoder("kimi_k2", 163840, 7168, 18432, 61, 64, 64),
            **_latent(384, 1, 1, 8),
            "moe_intermediate_size": 2048,
            "q_lora_rank": 1536,
        },
        "gpt-oss-20b": _decoder("gpt_oss", 201088, 2880, 2880, 24, 64, 8, 64)
        | _local_experts(32, 4)
        | {"sliding_window": 128},
        "gpt-oss-120b": _decoder("gpt_oss", 201088, 2880, 2880, 36, 64, 8, 64)
        | _local_experts(128, 4)
        | {"sliding_window": 128},
        "gemma-2-2b": _decoder("gemma2", 256000, 2304, 9216, 26, 8, 4, 256),
        "gemma-2-9b": _decoder("gemma2", 256000, 3584, 14336, 42, 16, 8, 256),
        "gemma-2-27b": _decoder("gemma2", 256000, 4608, 36864, 46, 32, 16, 128),
        "gemma-3-4b": _decoder("gemma3_text", 262144, 2560, 10240, 34, 8, 4, 256),
        "gemma-3-12b": _decoder("gemma3_text", 262144, 3840, 15360, 48, 16, 8, 256),
        "gemma-3-27b": _decoder("gemma3_text", 262144, 5376, 21504, 62, 32, 16, 128),
    }
)
MODEL_NAMES = tuple(_KNOWN)
# Models trained on from another one keep its configuration.
_SAME_AS: Mapping[str, str] = MappingProxyType(
    {
        "deepseek-r1-distill-qwen-1.5b": "qwen2.5-1.5b",
        "deepseek-r1-distill-qwen-7b": "qwen2.5-7b",
        "deepseek-r1-distill-qwen-14b": "qwen2.5-14b",
        "deepseek-r1-distill-qwen-32b": "qwen2.5-32b",
        "deepseek-r1-distill-llama-8b": "llama-3.1-8b",
        "deepseek-r1-distill-llama-70b": "llama-3.1-70b",
        "qwen2.5-math-1.5b": "qwen2.5-1.5b",
        "qwen2.5-math-7b": "qwen2.5-7b",
        "qwen2.5-coder-7b": "qwen2.5-7b",
        "qwen2.5-coder-32b": "qwen2.5-32b",
        "qwq-32b": "qwen2.5-32b",
        "llama-3-8b": "llama-3.1-8b",
        "llama-3-70b": "llama-3.1-70b",
    }
)


def find_model_config(name: str | None) -> Config | None:
    """Return the configuration of a well-known model, None when it is not one.

    Args:
        name: Name or path of the model: `Qwen/Qwen2.5-7B-Instruct`, `/models/qwen2.5-7b`.
    """
    if not name:
        return None
    last = name.strip().rstrip("/").rsplit("/", 1)[-1].lower()
    name = "-".join(part for part in _PART.split(last) if part not in _NOT_SIZE)
    return _KNOWN.get(_SAME_AS.get(name, name))
