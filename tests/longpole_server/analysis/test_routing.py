from collections.abc import Sequence
from dataclasses import replace

import pytest

from longpole_server.analysis.routing import (
    estimate_prefill_s,
    measure_group_routing,
    seen_hit_ratio,
)
from longpole_server.model.facts import EngineWindow, TrajectoryFacts
from support.steps import samples

MODEL = {
    "model_type": "llama",
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
}


def routed(
    groups: Sequence[str | None], replicas: Sequence[str | None], prompts: Sequence[int] = ()
) -> TrajectoryFacts:
    many = samples([1.0] * len(groups), replicas=replicas)
    return replace(many, group_ids=list(groups), input_tokens=list(prompts))


def test_a_group_on_one_replica_finds_its_prompt():
    routing = measure_group_routing(routed(["x"] * 4 + ["y"] * 4, ["a"] * 4 + ["b"] * 4))
    assert routing is not None
    assert routing.expected_hit_ratio == routing.best_hit_ratio == 0.75
    assert (routing.num_groups, routing.num_samples) == (2, 8)
    assert (routing.mean_replicas, routing.spread_ratio) == (1, 0)


def test_a_group_spread_over_all_replicas_does_not():
    routing = measure_group_routing(
        routed(["x"] * 4 + ["y"] * 4, ["a", "b", "c", "d"] * 2), prefill_ratio=0.4
    )
    assert routing is not None
    assert routing.expected_hit_ratio == 0
    assert routing.best_hit_ratio == 0.75
    assert (routing.mean_replicas, routing.spread_ratio) == (4, 1)
    assert routing.recoverable_ratio == pytest.approx(0.4 * 0.75)


def test_long_prompts_count_for_more():
    many = routed(["x", "x", "y", "y"], ["a", "b", "a", "a"], [900, 900, 100, 140])
    routing = measure_group_routing(many)
    assert routing is not None
    assert routing.expected_hit_ratio == pytest.approx(1 - (2 * 900 + 100) / (2 * 900 + 2 * 100))
    assert routing.recoverable_ratio is None


def test_nothing_to_route():
    assert measure_group_routing(samples([1.0, 1.0], replicas=["a", "b"])) is None
    assert measure_group_routing(routed(["x", "x"], ["a", "a"])) is None
    assert measure_group_routing(routed(["x", "y"], ["a", "b"])) is None


def test_what_the_engines_saw():
    windows = [
        EngineWindow("a", 10.0, prefix_hit_ratio=0.8, prompt_tokens=900.0),
        EngineWindow("b", 10.0, prefix_hit_ratio=0.2, prompt_tokens=100.0),
        EngineWindow("c", 10.0),
    ]
    assert seen_hit_ratio(windows) == pytest.approx(0.74)
    assert seen_hit_ratio([replace(windows[0], prompt_tokens=None), windows[1]]) == 0.5
    assert seen_hit_ratio([windows[2]]) is None


def test_prefill_takes_a_third_of_a_training_pass():
    many = routed(["x"] * 3, ["a", "b", "a"], [512, 1024, 2048])
    seconds = estimate_prefill_s(MODEL, many, 0.5, 8, 989e12, efficiency=0.5)
    assert seconds == pytest.approx(149226491215872 / 3 * 0.5 / (8 * 989e12 * 0.5))
    assert estimate_prefill_s(MODEL, many, 0.5, None, 989e12) is None
    assert estimate_prefill_s(MODEL, many, 0.5, 8, None) is None
    assert estimate_prefill_s(None, many, 0.5, 8, 989e12) is None
    assert estimate_prefill_s(MODEL, samples([1.0]), 0.5, 8, 989e12) is None
