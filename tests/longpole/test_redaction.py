import pytest

from longpole.redaction import REDACTED, flatten_config, is_secret


def test_nested_configuration_becomes_flat_attributes() -> None:
    config = {
        "group_size": 8,
        "actor": {"ppo": {"mini_batch": 64, "dynamic": True}, "lr": 1e-6},
        "sync": "nccl",
        "gpus": [0, 1],
        "unset": None,
    }
    assert flatten_config(config) == {
        "rl.config.group_size": 8,
        "rl.config.actor.ppo.mini_batch": 64,
        "rl.config.actor.ppo.dynamic": True,
        "rl.config.actor.lr": 1e-6,
        "rl.config.sync": "nccl",
        "rl.config.gpus": "0, 1",
    }


@pytest.mark.parametrize(
    "key",
    [
        "hf_token",
        "WANDB_API_KEY",
        "wandb.apiKey",
        "apikey",
        "db_password",
        "client_secret",
        "aws.credentials.user",
        "access-token",
        "HfToken",
        "tokens",
    ],
)
def test_secrets_do_not_leave_the_process(key: str) -> None:
    assert is_secret(key, "hunter2")
    assert flatten_config({key: "hunter2"}) == {f"rl.config.{key}": REDACTED}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ppo_max_token_len_per_gpu", 16384),
        ("max_num_batched_tokens", 8192),
        ("tokenizer", "Qwen/Qwen2.5-7B"),
        ("monkeypatch", "yes"),
        ("group_size", 8),
    ],
)
def test_settings_that_explain_a_verdict_stay(key: str, value: object) -> None:
    assert not is_secret(key, value)


def test_a_number_may_be_a_password() -> None:
    assert is_secret("password", 1234)


def test_logins_in_addresses_are_redacted() -> None:
    config = {"proxy": "http://user:hunter2@proxy:8080/x"}
    assert flatten_config(config) == {"rl.config.proxy": "http://[redacted]@proxy:8080/x"}


def test_stays_within_bounds() -> None:
    class Unspeakable:
        def __str__(self) -> str:
            raise RuntimeError

    endless: dict[str, object] = {"long": "x" * 10_000, "odd": Unspeakable()}
    endless["self"] = endless
    flat = flatten_config(endless | {f"k{n}": n for n in range(5000)})
    assert len(flat) <= 512
    assert flat["rl.config.long"] == "x" * 512
    assert flat["rl.config.odd"] == "Unspeakable"
