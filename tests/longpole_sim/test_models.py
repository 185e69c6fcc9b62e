import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_sim.models import ModelShape


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
