import pytest

from longpole_server.diagnosis.framework_keys import (
    KNOBS,
    SYSTEMS,
    find_keys,
    list_keys,
    parse_version,
)
from longpole_server.diagnosis.rules import RULES


def test_advice_names_known_knobs_and_every_knob_is_advised():
    named = {knob for rule in RULES for advice in rule.next for knob in advice.knobs}
    assert named == set(KNOBS)


def test_keys_look_like_keys():
    for system, keys in list_keys().items():
        assert keys
        for key in keys:
            assert " " not in key.name
            assert key.name.startswith("--") == (system in ("slime", "openrlhf"))
            assert key.until is None or key.since < key.until
    assert all(set(knob) <= set(SYSTEMS) for knob in KNOBS.values())


@pytest.mark.parametrize(
    ("knob", "system", "version", "mode", "expected"),
    [
        ("update.balance", "verl", None, "sync", ("trainer.balance_batch",)),
        ("async.mode", "verl", "0.9.1", None, ("trainer.v1.trainer_mode",)),
        ("async.mode", "verl", "v0.8.0", "sync", ()),
        ("partial_rollout", "verl", "0.9.0", "sync", ()),
        ("partial_rollout", "verl", "0.9", "fully_async", ("async_training.partial_rollout",)),
        ("engine.eager", "openrlhf", "0.9.5", None, ("--enforce_eager",)),
        ("engine.eager", "OpenRLHF", "0.11.0", None, ("--vllm.enforce_eager",)),
        ("engine.eager", "OpenRLHF", None, None, ("--vllm.enforce_eager",)),
        ("prompt.cap", "trl", "0.20.0", None, ("max_prompt_length",)),
        ("prompt.cap", "trl", "1.9.0", None, ()),
        ("engine.memory", "prime-rl", "0.8.0", None, ("inference.gpu_memory_utilization",)),
        ("engine.memory", "prime-rl", None, None, ("inference.vllm.gpu_memory_utilization",)),
        ("engine.memory", "my own trainer", None, None, ()),
        ("engine.memory", None, None, None, ()),
    ],
)
def test_keys_of_a_version(
    knob: str, system: str, version: str | None, mode: str | None, expected: tuple[str, ...]
):
    assert find_keys((knob,), system, version, mode) == expected


def test_versions():
    assert parse_version("v0.10.0.dev") == (0, 10, 0)
    assert parse_version("unheard of") is None
