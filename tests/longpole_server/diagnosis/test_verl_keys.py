import pytest

from longpole_server.diagnosis.verl_keys import existing_keys

KEYS = (
    "trainer.balance_batch",
    "actor_rollout_ref.rollout.checkpoint_engine.backend",
    "trainer.v1.trainer_mode",
    "async_training.partial_rollout",
)


@pytest.mark.parametrize(
    ("version", "mode", "expected"),
    [
        (None, "sync", KEYS[:3]),
        ("0.9.1", None, KEYS[:3]),
        ("v0.8.0", "sync", KEYS[:2]),
        ("0.7.0", "sync", KEYS[:1]),
        ("0.10.0.dev", "fully_async", KEYS),
        ("unheard of", "sync", KEYS[:3]),
    ],
)
def test_keys_of_a_version(version: str | None, mode: str | None, expected: tuple[str, ...]):
    assert existing_keys(KEYS, version, mode) == expected
