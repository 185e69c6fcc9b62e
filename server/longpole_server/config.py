"""Settings of the server: each option is declared once, with its default and its help.

The field `a_b` is the flag `--a-b` and the environment variable `LONGPOLE_A_B`; a secret may also
stand in a file named by `--a-b-file` or `LONGPOLE_A_B_FILE`. Flags win over the environment.
"""

import argparse
import dataclasses
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import platformdirs

from longpole.log_lines import parse_form
from longpole_server.errors import ConfigError

_TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
_FALSE_WORDS = frozenset({"", "0", "false", "no", "off"})
_SIZE_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SPAN = re.compile(r"(?P<number>[1-9][0-9]{0,4})(?P<unit>[hd])|forever")
_SPAN_UNITS_S = {"h": 3_600, "d": 86_400}
_MAX_PORT = 65_535


def parse_flag(text: str) -> bool:
    """Read a yes or no as people write it into environment variables."""
    word = text.strip().lower()
    if word in _TRUE_WORDS:
        return True
    if word in _FALSE_WORDS:
        return False
    raise ValueError(f"{text!r} is neither yes nor no")


def parse_port(text: str) -> int:
    """Read a TCP port; 0 lets the system choose a free one."""
    try:
        port = int(text)
    except ValueError:
        port = -1
    if not 0 <= port <= _MAX_PORT:
        raise ValueError(f"{text!r} is not a port (0 to {_MAX_PORT})")
    return port


def parse_size(text: str) -> int:
    """Read a positive number of bytes: `1048576`, `64MiB`, `2 GiB`."""
    word = text.strip()
    unit = next((unit for unit in _SIZE_UNITS if word.lower().endswith(unit.lower())), "")
    num_bytes = int(float(word[: len(word) - len(unit)]) * _SIZE_UNITS.get(unit, 1))
    if num_bytes <= 0:
        raise ValueError(f"{text!r} is not a size")
    return num_bytes


def parse_retention(text: str) -> tuple[tuple[str, int | None], ...]:
    """Read `table=14d,table=12h,table=forever` as seconds by table, None for ever."""
    pairs: list[tuple[str, int | None]] = []
    for word in filter(None, map(str.strip, text.split(","))):
        table, _, span = word.partition("=")
        match = _SPAN.fullmatch(span.strip())
        if match is None:
            raise ValueError(f"{word!r} is not like gpu_samples=14d, 12h or forever")
        keep_s = int(match["number"]) * _SPAN_UNITS_S[match["unit"]] if match["number"] else None
        pairs.append((table.strip(), keep_s))
    return tuple(pairs)


def parse_count(text: str) -> int:
    """Read a positive whole number."""
    number = int(text)
    if number <= 0:
        raise ValueError(f"{text!r} is not a positive number")
    return number


def parse_seconds(text: str) -> float:
    """Read a positive number of seconds."""
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{text!r} is not a positive number of seconds")
    return seconds


def _option(
    text: str, parse: Callable[[str], object] = str, *, secret: bool = False
) -> Mapping[str, Any]:
    return {"help": text, "parse": parse, "secret": secret}


@dataclass(frozen=True)
class Config:
    """Settings of one server process.

    Raises:
        ConfigError: The settings contradict each other.
    """

    host: str = field(default="127.0.0.1", metadata=_option("address to listen on"))
    port: int = field(
        default=8470,
        metadata=_option("port of UI, API and OTLP/HTTP; 0 = a free one", parse_port),
    )
    data_dir: Path = field(
        default=Path(platformdirs.user_data_dir("longpole", appauthor=False)),
        metadata=_option("directory of store and journal", Path),
    )
    otlp_http_port: int = field(
        default=4318, metadata=_option("standard OTLP/HTTP port; 0 = a free one", parse_port)
    )
    otlp_grpc_port: int = field(
        default=4317, metadata=_option("standard OTLP/gRPC port; 0 = a free one", parse_port)
    )
    no_otlp: bool = field(
        default=False, metadata=_option("do not listen on the standard OTLP ports", parse_flag)
    )
    token: str | None = field(
        default=None,
        repr=False,
        metadata=_option("bearer token that every client must send", secret=True),
    )
    access_file: Path | None = field(
        default=None,
        metadata=_option(
            "users and tokens as `longpole access` keeps them (default access.json in the data"
            " directory)",
            Path,
        ),
    )
    session_key: str | None = field(
        default=None,
        repr=False,
        metadata=_option(
            "key that signs sessions, shared by all servers behind one address", secret=True
        ),
    )
    session_days: int = field(
        default=14, metadata=_option("how long people stay signed in", parse_count)
    )
    proxy_addresses: str | None = field(
        default=None,
        metadata=_option(
            "addresses or networks of proxies before this server: their X-Forwarded-* count"
        ),
    )
    proxy_user_header: str | None = field(
        default=None,
        metadata=_option("header in which such a proxy names the user that it signed in"),
    )
    proxy_role: str = field(
        default="viewer",
        metadata=_option("role of such users whom the access file does not know: viewer or admin"),
    )
    tls_certificate_file: Path | None = field(
        default=None, metadata=_option("certificate with which this server speaks TLS", Path)
    )
    tls_key_file: Path | None = field(default=None, metadata=_option("key of it", Path))
    insecure: bool = field(
        default=False,
        metadata=_option("listen beyond this machine although no token protects it", parse_flag),
    )
    keep_text: bool = field(
        default=False,
        metadata=_option("store text of prompts, responses and tool arguments", parse_flag),
    )
    max_body_bytes: int = field(
        default=64 << 20,
        metadata=_option("largest OTLP request after decompression", parse_size),
    )
    max_import_bytes: int = field(
        default=4 << 30, metadata=_option("largest log file that import takes", parse_size)
    )
    journal_max_bytes: int = field(
        default=2 << 30,
        metadata=_option("most bytes of accepted data waiting for the store", parse_size),
    )
    lost_after_s: float = field(
        default=120.0,
        metadata=_option(
            "silence of all processes after which a run counts as lost", parse_seconds
        ),
    )
    public_url: str | None = field(
        default=None,
        metadata=_option("address under which people open the dashboard, for links in alerts"),
    )
    slack_webhook_url: str | None = field(
        default=None,
        repr=False,
        metadata=_option("Slack incoming webhook that alerts go to", secret=True),
    )
    slack_bot_token: str | None = field(
        default=None,
        repr=False,
        metadata=_option("Slack bot token; alerts get threads and are struck off", secret=True),
    )
    slack_channel: str | None = field(
        default=None, metadata=_option("Slack channel that the bot writes to")
    )
    slack_api_url: str | None = field(
        default=None, metadata=_option("address of Slack's API, for proxies in between")
    )
    apprise_urls: str | None = field(
        default=None,
        repr=False,
        metadata=_option("addresses of other services as apprise writes them", secret=True),
    )
    clickhouse_url: str | None = field(
        default=None,
        metadata=_option("HTTP address of a ClickHouse to store in, instead of the embedded one"),
    )
    clickhouse_user: str | None = field(default=None, metadata=_option("user at that ClickHouse"))
    clickhouse_password: str | None = field(
        default=None,
        repr=False,
        metadata=_option("password at that ClickHouse", secret=True),
    )
    clickhouse_database: str = field(
        default="longpole", metadata=_option("database there; made when missing")
    )
    clickhouse_cluster: str | None = field(
        default=None,
        metadata=_option("cluster there whose nodes share the tables; without one a single node"),
    )
    clickhouse_ca_file: Path | None = field(
        default=None, metadata=_option("certificates that its certificate is checked with", Path)
    )
    clickhouse_certificate_file: Path | None = field(
        default=None, metadata=_option("certificate that this server shows it", Path)
    )
    clickhouse_key_file: Path | None = field(
        default=None, metadata=_option("key of that certificate", Path)
    )
    clickhouse_no_verify: bool = field(
        default=False, metadata=_option("do not check its certificate", parse_flag)
    )
    retention: tuple[tuple[str, int | None], ...] = field(
        default=(),
        metadata=_option(
            "how long tables keep rows where it differs from the defaults, such as"
            " gpu_samples=7d,otel_traces=forever",
            parse_retention,
        ),
    )
    no_sql_door: bool = field(
        default=False,
        metadata=_option("do not answer people's own SQL at /clickhouse/", parse_flag),
    )
    sql_max_s: float = field(
        default=30.0, metadata=_option("longest that a query of people's own runs", parse_seconds)
    )
    sql_max_memory_bytes: int = field(
        default=1 << 30, metadata=_option("most memory of a query of people's own", parse_size)
    )
    sql_max_rows: int = field(
        default=1_000_000, metadata=_option("most rows of its answer", parse_count)
    )
    alert_severity: str = field(
        default="warning", metadata=_option("least severity that channels are told of")
    )
    alert_routes: str | None = field(
        default=None,
        metadata=_option("routes of single channels: CHANNEL=SEVERITY:RUNS, RUNS may be PROJECT/*"),
    )
    alert_quiet_hours: str | None = field(
        default=None,
        metadata=_option("hours in which only what is critical is told: 22:00-07:00 Europe/Berlin"),
    )
    alert_group_interval_s: float = field(
        default=120.0,
        metadata=_option(
            "after a message about a run, what follows is gathered for so long", parse_seconds
        ),
    )
    log_format: str = field(
        default="text", metadata=_option("form of log lines: text, or json", parse_form)
    )
    alert_digest_s: float = field(
        default=0.0,
        metadata=_option(
            "tell what is not critical of all runs together, once in so many seconds", parse_seconds
        ),
    )
    ports_file: Path | None = field(
        default=None, metadata=_option("write the ports as JSON once listening", Path)
    )

    def __post_init__(self) -> None:
        if (self.tls_certificate_file is None) != (self.tls_key_file is None):
            raise ConfigError(
                "TLS takes a certificate and its key",
                hint="set --tls-certificate-file and --tls-key-file, or neither",
            )
        if self.proxy_user_header is not None and self.proxy_addresses is None:
            raise ConfigError(
                "anybody could name a user in that header",
                hint="say with --proxy-addresses whose header counts",
            )
        if self.proxy_role not in {"viewer", "admin"}:
            raise ConfigError(f"--proxy-role {self.proxy_role!r} is neither viewer nor admin")
        if not (self.insecure or self.is_guarded or is_loopback(self.host)):
            raise ConfigError(
                f"refusing to listen on {self.host} without a token or users",
                hint="set LONGPOLE_TOKEN or --token-file, or add users with `longpole access`;"
                " or say --insecure",
            )

    @property
    def access_path(self) -> Path:
        """Where users and tokens stand."""
        return self.access_file or self.data_dir / "access.json"

    @property
    def is_guarded(self) -> bool:
        """Whether clients are asked who they are."""
        return self.token is not None or self.access_path.is_file()


@dataclass(frozen=True)
class UpConfig(Config):
    """Settings of `longpole up`: a server with its local agent."""

    no_agent: bool = field(
        default=False, metadata=_option("do not start the local agent", parse_flag)
    )
    demo: bool = field(
        default=False, metadata=_option("also start a simulated training run", parse_flag)
    )


ConfigType = TypeVar("ConfigType", bound=Config)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a listener on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_of_store(option: str) -> bool:
    """Tell whether an option says where the store is: all that commands on a store ask for."""
    return option == "data_dir" or option.startswith("clickhouse_")


def read_config(
    kind: type[ConfigType],
    command: str,
    words: Sequence[str],
    environ: Mapping[str, str],
    takes: Callable[[str], bool] = lambda _: True,
) -> ConfigType:
    """Build a configuration from command-line words and the environment.

    Args:
        kind: The configuration to build.
        command: Name of the subcommand, for the usage line.
        words: The arguments after the subcommand.
        environ: The process environment.
        takes: Tells by its name whether the command has an option; others keep their defaults.

    Raises:
        ConfigError: A word, a variable or their combination makes no sense.
        SystemExit: `--help` was asked for, with status 0.
    """
    options = [option for option in dataclasses.fields(kind) if takes(option.name)]
    flags = vars(_build_parser(options, command).parse_args(list(words)))
    return _read(kind, options, flags, environ)


def read_config_and_word(
    kind: type[ConfigType],
    command: str,
    name: str,
    words: Sequence[str],
    environ: Mapping[str, str],
) -> tuple[ConfigType, str]:
    """Build a configuration for a command on a store that takes one argument beside its options.

    Args:
        kind: The configuration to build.
        command: Name of the subcommand, for the usage line.
        name: Of the argument, in capitals.
        words: The arguments after the subcommand.
        environ: The process environment.

    Raises:
        ConfigError: The argument is missing, or something makes no sense.
        SystemExit: `--help` was asked for, with status 0.
    """
    options = [option for option in dataclasses.fields(kind) if is_of_store(option.name)]
    parser = _build_parser(options, command)
    parser.add_argument("word", metavar=name)
    flags = vars(parser.parse_args(list(words)))
    return _read(kind, options, flags, environ), str(flags["word"])


def _read(
    kind: type[ConfigType],
    options: Sequence["dataclasses.Field[Any]"],
    flags: Mapping[str, str | None],
    environ: Mapping[str, str],
) -> ConfigType:
    values: dict[str, Any] = {}
    for option in options:
        text, origin = _find_text(option, flags, environ)
        if text is not None:
            values[option.name] = _parse(option, text, origin)
    return kind(**values)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, hint=f"see {self.prog} --help")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _build_parser(
    options: Sequence["dataclasses.Field[Any]"], command: str
) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"longpole {command}",
        allow_abbrev=False,
        epilog="Every option --a-b is also the environment variable LONGPOLE_A_B; a secret itself "
        "may stand in it where the option names a file.",
    )
    for option in options:
        text = option.metadata["help"]
        if option.metadata["parse"] is parse_flag:
            parser.add_argument(_flag(option.name), action="store_const", const="yes", help=text)
        elif option.metadata["secret"]:
            parser.add_argument(
                _flag(option.name) + "-file", metavar="FILE", help=f"file that holds the {text}"
            )
        else:
            shown = "" if option.default in (None, ()) else f" (default {option.default})"
            parser.add_argument(_flag(option.name), help=text + shown)
    return parser


def _find_text(
    option: "dataclasses.Field[Any]", flags: Mapping[str, str | None], environ: Mapping[str, str]
) -> tuple[str | None, str]:
    variable = "LONGPOLE_" + option.name.upper()
    if option.metadata["secret"]:
        file = flags.get(option.name + "_file") or environ.get(variable + "_FILE")
        if file:
            return _read_secret(Path(file)), file
        return environ.get(variable) or None, variable
    text = flags.get(option.name)
    if text is not None:
        return text, _flag(option.name)
    return environ.get(variable), variable


def _read_secret(path: Path) -> str:
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the secret in {path}: {error}") from error
    if not secret:
        raise ConfigError(f"{path} is empty", hint="it must hold the secret")
    return secret


def _parse(option: "dataclasses.Field[Any]", text: str, origin: str) -> object:
    try:
        return option.metadata["parse"](text)
    except ValueError as error:
        raise ConfigError(f"{origin}: {error}") from error
