from pathlib import Path

import pytest

from longpole_server.config import Config, read_config
from longpole_server.delivery.settings import (
    DeliverySettings,
    guess_base_url,
    open_channels,
    read_settings,
)
from longpole_server.errors import ConfigError

# A plugin of apprise loads a module that later versions of Python lack.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


def test_the_webhook_alone_is_enough(tmp_path: Path):
    secret = tmp_path / "url"
    secret.write_text("https://hooks/secret\n")
    for environ in (
        {"LONGPOLE_SLACK_WEBHOOK_URL": "https://hooks/secret"},
        {"LONGPOLE_SLACK_WEBHOOK_URL_FILE": str(secret)},
    ):
        config = read_config(Config, "server", [], environ)
        settings = read_settings(config)
        assert "secret" not in repr(config) + repr(settings)
        (channel,) = open_channels(settings)
        assert (channel.name, channel.kind) == ("slack", "slack_webhook")


def test_each_service_is_a_channel_of_its_own():
    urls = ("json://127.0.0.1:9/secret", "lark://very-secret-token")
    channels = open_channels(
        DeliverySettings(slack_bot_token="xoxb-s", slack_channel="#a", apprise_urls=urls)
    )
    assert [channel.name for channel in channels] == ["slack-bot", "json-1", "lark-2"]
    assert not any("secret" in channel.name + channel.kind for channel in channels)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        (DeliverySettings(slack_webhook_url="secret"), "LONGPOLE_SLACK_WEBHOOK_URL"),
        (DeliverySettings(slack_bot_token="secret"), "channel"),
        (DeliverySettings(apprise_urls=("nosuch://secret",)), "address 1"),
    ],
)
def test_what_makes_no_sense_is_named_without_the_secret(settings: DeliverySettings, word: str):
    with pytest.raises(ConfigError) as caught:
        open_channels(settings)
    assert word in caught.value.message
    assert "secret" not in caught.value.message


def test_links_go_where_people_open_the_dashboard():
    config = read_config(Config, "server", [], {"LONGPOLE_PUBLIC_URL": "https://longpole.lab"})
    assert read_settings(config).base_url == "https://longpole.lab"
    assert read_settings(Config()).base_url == "http://127.0.0.1:8470"


@pytest.mark.parametrize(
    ("config", "address"),
    [
        (Config(), "http://127.0.0.1:8470"),
        (Config(host="::1", port=9000), "http://[::1]:9000"),
        (
            Config(
                host="0.0.0.0",
                insecure=True,
                tls_certificate_file=Path("x"),
                tls_key_file=Path("x"),
            ),
            "https://gpu-head:8470",
        ),
        (Config(host="[::]", insecure=True), "http://gpu-head:8470"),
        (Config(host="longpole.example", insecure=True), "http://longpole.example:8470"),
    ],
)
def test_links_lead_to_the_likeliest_address_where_nobody_says_it(config: Config, address: str):
    assert guess_base_url(config, "gpu-head") == address


def test_links_lead_to_the_public_address():
    assert read_settings(Config(public_url="https://lp.example")).base_url == "https://lp.example"
