"""Which channels there are: read once, built in one place."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from longpole_server.config import Config
from longpole_server.delivery.channel import Channel
from longpole_server.delivery.outbox import USUAL_PACE, Pace
from longpole_server.delivery.routing import Routing, read_routing
from longpole_server.errors import ConfigError

# Listening there means every address of the machine, and a link to it leads nowhere.
_ANYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, not bound


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """Secrets and addresses of the channels; None where there is none.

    Attributes:
        slack_webhook_url: Alone enough to be told of everything.
        slack_bot_token, slack_channel: A bot, and the channel that it writes to.
        slack_api_url: Where Slack's API is, None for Slack itself.
        apprise_urls: Addresses as apprise writes them.
        base_url: Root of the dashboard for links, empty when it is not known.
        routing: Who is told of what.
        pace: How fast.
    """

    slack_webhook_url: str | None = field(default=None, repr=False)
    slack_bot_token: str | None = field(default=None, repr=False)
    slack_channel: str | None = None
    slack_api_url: str | None = None
    apprise_urls: tuple[str, ...] = field(default=(), repr=False)
    base_url: str = ""
    routing: Routing = field(default_factory=Routing)
    pace: Pace = USUAL_PACE


def read_settings(config: Config) -> DeliverySettings:
    """Return what a server's configuration says of channels.

    Raises:
        ConfigError: A route, a severity or the quiet hours make no sense.
    """
    return DeliverySettings(
        slack_webhook_url=config.slack_webhook_url,
        slack_bot_token=config.slack_bot_token,
        slack_channel=config.slack_channel,
        slack_api_url=config.slack_api_url,
        apprise_urls=tuple((config.apprise_urls or "").split()),
        base_url=config.public_url or guess_base_url(config),
        routing=read_routing(config.alert_severity, config.alert_routes, config.alert_quiet_hours),
        pace=Pace(group_interval_s=config.alert_group_interval_s, digest_s=config.alert_digest_s),
    )


def guess_base_url(config: Config, host_name: str | None = None) -> str:
    """Return the likeliest address of the dashboard where nobody says it.

    Args:
        config: Of a server that listens on `port`.
        host_name: Of this machine, for one that listens on all its addresses; None asks for it.
    """
    host = config.host.strip("[]")
    if host in _ANYWHERE:
        host = host_name or socket.gethostname()
    scheme = "http" if config.tls_certificate_file is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{config.port}"


def open_channels(settings: DeliverySettings) -> Sequence[Channel]:
    """Build the channels.

    Raises:
        ConfigError: An address or a combination makes no sense; the text holds no secret.
    """
    channels = [*_open_slack(settings), *_open_others(settings.apprise_urls)]
    settings.routing.check(channel.name for channel in channels)
    return channels


# The libraries load slowly: nobody without such a channel waits for them.


def _open_slack(settings: DeliverySettings) -> list[Channel]:
    url, token, channel = (
        settings.slack_webhook_url,
        settings.slack_bot_token,
        settings.slack_channel,
    )
    if url is None and token is None:
        return []
    from longpole_server.delivery.slack import SlackBot, SlackWebhook

    channels: list[Channel] = []
    if url is not None:
        if not url.startswith(("https://", "http://")):
            raise ConfigError("LONGPOLE_SLACK_WEBHOOK_URL is no web address")
        channels.append(SlackWebhook(url))
    if token is not None:
        if not channel:
            raise ConfigError(
                "a Slack bot needs a channel to write to", hint="set LONGPOLE_SLACK_CHANNEL"
            )
        api_url = settings.slack_api_url
        channels.append(
            SlackBot(token, channel) if api_url is None else SlackBot(token, channel, api_url)
        )
    return channels


def _open_others(urls: Sequence[str]) -> list[Channel]:
    if not urls:
        return []
    from longpole_server.delivery.apprise import AppriseChannel

    return [AppriseChannel(url, number) for number, url in enumerate(urls, 1)]
