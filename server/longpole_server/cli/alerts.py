"""`longpole alerts test` and `longpole alerts replay RUN`: try the channels, try the rules."""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from longpole.options import OptionParser
from longpole_server.cli.client import (
    DEFAULT_SERVER,
    ServerClient,
    parse_address,
    quote_segment,
    read_token,
)
from longpole_server.config import Config, read_config
from longpole_server.delivery.settings import open_channels, read_settings
from longpole_server.errors import BadRequestError, ConfigError, NotFoundError, ServerError
from longpole_server.service.alert_delivery import make_sample, try_channel
from longpole_server.service.alerts_interface import ChannelTest

_DONE, _FAILED, _REFUSED = 0, 1, 2
_NS_PER_S = 1e9
_SUBCOMMANDS = ("test", "replay")


def main(arguments: Sequence[str]) -> int:
    """Run a subcommand. Exit status: 0 done, 1 failed, 2 the request cannot be met."""
    try:
        options = _parse(arguments, os.environ)
        if options.subcommand == "test":
            return _test(options, os.environ)
        return _replay(options)
    except (BadRequestError, ConfigError, NotFoundError) as error:
        return _complain(error, _REFUSED)
    except ServerError as error:
        return _complain(error, _FAILED)


def _parse(arguments: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    if not arguments or arguments[0] not in (*_SUBCOMMANDS, "-h", "--help"):
        raise ConfigError("say what to do: test, or replay RUN", "see longpole alerts --help")
    name = arguments[0] if arguments[0] in _SUBCOMMANDS else ""
    parser = OptionParser(
        prog=f"longpole alerts {name}".strip(),
        description="Send a sample to every channel (test), or run all rules over a stored run "
        "(replay RUN).",
        epilog="Every option --a-b is also LONGPOLE_A_B. Token: LONGPOLE_TOKEN, or the file that "
        "LONGPOLE_TOKEN_FILE names. `test` uses the channels of its own environment "
        "(LONGPOLE_SLACK_WEBHOOK_URL, ...) where there are any, else those of the server.",
    )
    parser.add_argument("subcommand", choices=_SUBCOMMANDS)
    if name != "test":
        parser.add_argument("run", metavar="RUN", help="id of a stored run")
        parser.add_argument("--json", action="store_true", help="print the alerts as JSON")
    parser.add_argument(
        "--server",
        type=parse_address,
        default=DEFAULT_SERVER,
        metavar="URL",
        help=f"where the server is (default {DEFAULT_SERVER})",
    )
    return parser.parse(arguments, environ)


def _test(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    answers = _test_own(environ, options.server) or _test_servers(options.server)
    if not answers:
        raise ConfigError(
            "there is no channel to test",
            "set LONGPOLE_SLACK_WEBHOOK_URL or LONGPOLE_APPRISE_URLS here or for the server",
        )
    for answer in answers:
        said = "took it" if answer.error is None else answer.error
        print(f"{answer.channel} ({answer.kind}): {said}")
    return _DONE if all(answer.error is None for answer in answers) else _FAILED


def _test_own(environ: Mapping[str, str], server: str) -> list[ChannelTest]:
    """Test what the environment names, without any server; links lead to `server`, as told."""
    own = {"LONGPOLE_PUBLIC_URL": server, **_channels_only(environ)}
    settings = read_settings(read_config(Config, "alerts test", [], own))
    now_ns = int(datetime.now(timezone.utc).timestamp() * _NS_PER_S)
    sample = make_sample(now_ns, settings.base_url)
    return [try_channel(channel, sample) for channel in open_channels(settings)]


def _channels_only(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of channels: others of a server may make no sense here."""
    prefixes = ("LONGPOLE_SLACK_", "LONGPOLE_APPRISE_", "LONGPOLE_PUBLIC_URL")
    return {name: value for name, value in environ.items() if name.startswith(prefixes)}


def _test_servers(address: str) -> list[ChannelTest]:
    answer = ServerClient(address, read_token()).post_json("/channels/test", {})
    return [ChannelTest(**channel) for channel in answer["channels"]]


def _replay(options: argparse.Namespace) -> int:
    client = ServerClient(options.server, read_token())
    answer = client.get(f"/runs/{quote_segment(options.run)}/alerts/replay")
    if options.json:
        print(json.dumps(answer, indent=2))
        return _DONE
    alerts: list[dict[str, Any]] = answer["alerts"]
    if not alerts:
        print(f"No rule would have fired in {options.run}.")
    for alert in reversed(alerts):
        print(_describe(alert))
    return _DONE


def _describe(alert: Mapping[str, Any]) -> str:
    when = datetime.fromtimestamp(alert["started_ns"] / _NS_PER_S, timezone.utc)
    step = f" step {alert['first_step']}" if alert["first_step"] is not None else ""
    state = str(alert["state"])
    if alert["resolved_ns"] is not None:
        lasted_s = (alert["resolved_ns"] - alert["started_ns"]) / _NS_PER_S
        state = f"over after {lasted_s:.0f} s"
    entity = alert["entity"]
    whose = "" if entity["kind"] in ("run", "server") else f" {entity['kind']} {entity['id']}"
    return (
        f"{when:%Y-%m-%d %H:%M:%S}{step} [{alert['severity']}] {alert['rule']}{whose}: "
        f"{alert['summary']} ({state})"
    )


def _complain(error: ServerError, status: int) -> int:
    hint = f" ({error.hint})" if error.hint else ""
    print(f"longpole alerts: {error.message}{hint}", file=sys.stderr)
    return status
