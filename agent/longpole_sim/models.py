"""The trained model: its Hugging Face fields, its size, and the floating-point work it causes."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

# Dense bf16 peak of one H100 SXM, FLOP/s (vendor's data sheet, without sparsity).
H100_PEAK_FLOPS_PER_S = 989e12
BYTES_PER_PARAMETER = 2


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder as Hugging Face describes it. The default is Qwen3-8B.

    Attributes:
        num_experts: 0 for a dense model; else every layer is a mixture, whose experts have
            `moe_intermediate_size`.
        experts_per_token: How many of them a token goes through.
    """

    name: str = "Qwen/Qwen3-8B"
    vocab_size: int = 151_936
    hidden_size: int = 4_096
    intermediate_size: int = 12_288
    num_hidden_layers: int = 36
    num_attention_heads: int = 32
    num_key_value_heads: int = 8
    head_dim: int = 128
    num_experts: int = 0
    experts_per_token: int = 0
    moe_intermediate_size: int = 0

    @property
    def is_moe(self) -> bool:
        """Whether the model is a mixture of experts."""
        return self.num_experts > 0

    @property
    def active_parameters(self) -> int:
        """Weights that a token goes through, as verl counts them for `qwen3_moe`."""
        if not self.is_moe:
            return self.num_parameters
        expert = 3 * self.hidden_size * self.moe_intermediate_size
        routed = self.experts_per_token * expert + self.hidden_size * self.num_experts
        return self._parameters_with(routed)

    @property
    def num_parameters(self) -> int:
        """Weights of all matrices, embedding and output head both counted."""
        if self.is_moe:
            expert = 3 * self.hidden_size * self.moe_intermediate_size
            return self._parameters_with(self.num_experts * (expert + self.hidden_size))
        return self._parameters_with(3 * self.hidden_size * self.intermediate_size)

    def _parameters_with(self, mlp: int) -> int:
        query = self.num_attention_heads * self.head_dim
        key = self.num_key_value_heads * self.head_dim
        attention = self.hidden_size * (query + key + key + query)
        embeddings = 2 * self.vocab_size * self.hidden_size
        return embeddings + self.num_hidden_layers * (attention + mlp)

    @property
    def weight_bytes(self) -> int:
        """Size of the bf16 weights."""
        return self.num_parameters * BYTES_PER_PARAMETER

    def training_flops(self, sequence_lengths: Iterable[int]) -> float:
        """Return forward plus backward work of one pass over the sequences.

        Causal attention, recomputation not counted, as verl's counter does it:
        6 N tokens + 6 sum(length^2) head_dim heads layers.
        """
        lengths = list(sequence_lengths)
        attention = self.head_dim * self.num_attention_heads * self.num_hidden_layers
        quadratic = sum(length * length for length in lengths)
        return 6.0 * self.active_parameters * sum(lengths) + 6.0 * quadratic * attention

    def huggingface_config(self) -> dict[str, object]:
        """Return the fields of `config.json` that the work of a step depends on."""
        mixture: dict[str, object] = {
            "num_experts": self.num_experts,
            "num_experts_per_tok": self.experts_per_token,
            "moe_intermediate_size": self.moe_intermediate_size,
        }
        return {
            "model_type": "qwen3_moe" if self.is_moe else "qwen3",
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "tie_word_embeddings": False,
            **(mixture if self.is_moe else {}),
        }

    def scaled(self, factor: float) -> "ModelShape":
        """Return a model of `factor` times the parameters, with the same width.

        A run that is shown faster than it is must be a run of a smaller model: otherwise the
        same tokens in less time would need GPUs faster than any that exist.
        """
        if factor == 1.0:
            return self
        if self.is_moe:
            return self._deeper(factor)
        target = self.num_parameters * factor
        vocabulary = max(64, round(self.vocab_size * factor))
        layers = max(1, round(self.num_hidden_layers * factor))
        rest = (target - 2 * vocabulary * self.hidden_size) / layers
        heads, groups = self.num_attention_heads, self.num_key_value_heads
        # A very small layer has no room for all heads beside its MLP.
        while heads > 1 and self._attention_parameters(heads, groups) > rest / 2:
            heads, groups = heads // 2, max(1, groups // 2)
        mlp = rest - self._attention_parameters(heads, groups)
        return replace(
            self,
            name=f"{self.name} x{factor:.3g}",
            vocab_size=vocabulary,
            num_hidden_layers=layers,
            intermediate_size=max(1, round(mlp / (3 * self.hidden_size))),
            num_attention_heads=heads,
            num_key_value_heads=groups,
        )

    def _deeper(self, factor: float) -> "ModelShape":
        return replace(
            self,
            name=f"{self.name} x{factor:.3g}",
            vocab_size=max(64, round(self.vocab_size * factor)),
            num_hidden_layers=max(1, round(self.num_hidden_layers * factor)),
        )

    def _attention_parameters(self, heads: int, groups: int) -> int:
        return 2 * self.hidden_size * self.head_dim * (heads + groups)


# A mixture of experts with the width of Qwen3-30B-A3B and the work of a dense model of 8B.
MIXTURE = ModelShape(
    name="Qwen/Qwen3-30B-A3B x2.5",
    hidden_size=2_048,
    intermediate_size=6_144,
    num_hidden_layers=120,
    num_attention_heads=32,
    num_key_value_heads=4,
    num_experts=128,
    experts_per_token=8,
    moe_intermediate_size=768,
)
