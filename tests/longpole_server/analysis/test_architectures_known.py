import pytest

from longpole_server.analysis.architectures import describe_architecture, describe_vision
from longpole_server.analysis.architectures_known import MODEL_NAMES, find_model_config

# Parameters in billions as the models' cards state them, language model alone. Small models share
# one matrix between embedding and output head: there the input embedding is not counted.
PUBLISHED = {
    "qwen2.5-7b": 7.61,
    "qwen2.5-14b": 14.7,
    "qwen2.5-32b": 32.5,
    "qwen2.5-72b": 72.7,
    "qwen3-8b": 8.2,
    "qwen3-14b": 14.8,
    "qwen3-32b": 32.8,
    "qwen3-30b-a3b": 30.5,
    "qwen3-235b-a22b": 235,
    "qwen3-coder-480b-a35b": 480,
    "qwen3-next-80b-a3b": 80,
    "llama-3.1-8b": 8.03,
    "llama-3.1-70b": 70.6,
    "llama-3.1-405b": 406,
    "mistral-7b": 7.24,
    "mixtral-8x7b": 46.7,
    "mixtral-8x22b": 141,
    "deepseek-v2-lite": 15.7,
    "deepseek-v3": 671,
    "kimi-k2": 1026,
    "gpt-oss-20b": 20.9,
    "gpt-oss-120b": 116.8,
}
TIED = {
    "qwen2.5-0.5b": 0.49,
    "qwen2.5-1.5b": 1.54,
    "qwen2.5-3b": 3.09,
    "qwen3-0.6b": 0.6,
    "qwen3-1.7b": 1.7,
    "qwen3-4b": 4.0,
    "llama-3.2-1b": 1.24,
    "llama-3.2-3b": 3.21,
    "gemma-2-2b": 2.61,
    "gemma-2-9b": 9.24,
    "gemma-2-27b": 27.2,
    "gemma-3-4b": 3.88,
    "gemma-3-12b": 11.8,
    "gemma-3-27b": 27.0,
}
ACTIVE = {
    "qwen3-30b-a3b": 3.3,
    "qwen3-235b-a22b": 22,
    "mixtral-8x7b": 12.9,
    "deepseek-v3": 37.5,
}


@pytest.mark.parametrize(("name", "billions"), PUBLISHED.items())
def test_parameters_are_those_of_the_model(name: str, billions: float):
    config = find_model_config(name)
    assert config is not None
    assert describe_architecture(config).num_parameters / 1e9 == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize(("name", "billions"), TIED.items())
def test_parameters_of_models_with_one_embedding(name: str, billions: float):
    config = find_model_config(name)
    assert config is not None
    model = describe_architecture(config)
    own = (model.num_parameters - model.lookup_weights) / 1e9
    assert own == pytest.approx(billions, rel=0.015)


@pytest.mark.parametrize(("name", "billions"), ACTIVE.items())
def test_active_parameters(name: str, billions: float):
    config = find_model_config(name)
    assert config is not None
    assert describe_architecture(config).weights / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_each_known_model_can_be_counted(name: str):
    config = find_model_config(name)
    assert config is not None
    model = describe_architecture(config)
    assert 0 < model.weights <= model.num_parameters
    assert all(group.cache_width > 0 for group in model.attention)
    if "vision_config" in config:
        assert 0.3e9 < describe_vision(config).weights < 0.8e9


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("/data/models/Qwen3-30B-A3B-Instruct-2507/", "qwen3-30b-a3b"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-r1"),
        ("openai/gpt-oss-20b", "gpt-oss-20b"),
        ("google/gemma-3-12b-it", "gemma-3-12b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen2.5-7b"),
        ("Qwen/Qwen2.5-Math-7B-Instruct", "qwen2.5-7b"),
        ("meta-llama/Meta-Llama-3-8B", "llama-3.1-8b"),
    ],
)
def test_names_as_people_write_them(given: str, known: str):
    assert find_model_config(given) == find_model_config(known) is not None


@pytest.mark.parametrize(
    "name", [None, "", "Qwen", "qwen2.5", "my-own-7b", "DeepSeek-R1-Distill-Qwen-8B", "qwen3-8b-x"]
)
def test_a_name_that_only_looks_alike_is_not_known(name: str | None):
    assert find_model_config(name) is None
