import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_sim.models import MIXTURE, ModelShape


# Published check values of verl's FLOPs counter for Qwen3-8B.
@pytest.mark.parametrize(
    ("lengths", "flops"),
    [
        ([512, 1024, 2048], 180_997_438_046_208),
        ([4096, 4096, 4096], 648_394_032_807_936),
    ],
)
def test_training_flops_are_the_published_ones(lengths: list[int], flops: int) -> None:
    assert ModelShape().training_flops(lengths) == flops


@given(st.floats(0.01, 10.0))
def test_a_scaled_model_causes_scaled_work(factor: float) -> None:
    lengths = [300, 900]
    work = ModelShape().scaled(factor).training_flops(lengths)
    assert work == pytest.approx(ModelShape().training_flops(lengths) * factor, rel=0.04)


def test_scale_one_is_the_model_itself() -> None:
    assert ModelShape().scaled(1.0) == ModelShape()


def test_config_names_what_flops_need() -> None:
    config = ModelShape().huggingface_config()
    assert config["model_type"] == "qwen3"
    assert config["num_hidden_layers"] == 36


def test_training_flops_of_a_mixture_are_the_published_ones() -> None:
    model = ModelShape(
        vocab_size=151_936,
        hidden_size=2_048,
        num_hidden_layers=48,
        num_attention_heads=32,
        num_key_value_heads=4,
        num_experts=128,
        experts_per_token=8,
        moe_intermediate_size=768,
    )
    assert model.training_flops([512, 1024, 2048]) == 78_593_069_678_592
    assert model.training_flops([4096] * 3) == 306_570_470_621_184


def test_a_mixture_holds_more_weights_than_a_token_uses() -> None:
    assert MIXTURE.active_parameters < MIXTURE.num_parameters / 5
    assert MIXTURE.huggingface_config()["num_experts_per_tok"] == 8
