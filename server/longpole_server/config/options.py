"""Every option of the server, declared once, with its default and its help."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from longpole.host_names import is_loopback
from longpole.log_lines import parse_form
from longpole_server.config.roles import check_role
from longpole_server.config.values import (
    parse_count,
    parse_digest,
    parse_flag,
    parse_port,
    parse_retention,
    parse_seconds,
    parse_size,
)
from longpole_server.errors import ConfigError


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

    role: str = field(
        default="all",
        metadata=_option(
            "what this server does: all; or, with an external ClickHouse, ingest (takes data and"
            " judges it, no pages) or web (pages and API alone, any number of them)"
        ),
    )
    writer_url: str | None = field(
        default=None,
        metadata=_option("address at which the role web reaches the server that takes data"),
    )
    writer_ca_file: Path | None = field(
        default=None, metadata=_option("certificates that its certificate is checked with", Path)
    )
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
    proxy_secret: str | None = field(
        default=None,
        repr=False,
        metadata=_option(
            "secret that such a proxy must show in X-Longpole-Proxy-Secret to name a user",
            secret=True,
        ),
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
    redact: str = field(
        default="all",
        metadata=_option(
            "rules that such text, and messages of errors, are cleaned by: all, none, or some of"
            " private_key, jwt, url_login, authorization, assignment, api_key, email"
        ),
    )
    redact_file: Path | None = field(
        default=None,
        metadata=_option(
            "more such rules, a name and a regular expression (RE2) in each line", Path
        ),
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
            "tell what is not critical of all runs together, so many seconds apart, a week at most",
            parse_digest,
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
        if self.proxy_secret is not None and self.proxy_user_header is None:
            raise ConfigError(
                "a proxy's secret is for naming users",
                hint="say with --proxy-user-header in which header it does",
            )
        if self.proxy_role not in {"viewer", "admin"}:
            raise ConfigError(f"--proxy-role {self.proxy_role!r} is neither viewer nor admin")
        check_role(self)
        if not (self.insecure or self.is_guarded or is_loopback(self.host)):
            raise ConfigError(
                f"refusing to listen on {self.host} without a token or users",
                hint="set LONGPOLE_TOKEN or --token-file, or add users with `longpole access`;"
                " or say --insecure",
            )

    @property
    def is_web(self) -> bool:
        """Whether this server shows what another one writes."""
        return self.role == "web"

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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.role != "all":
            raise ConfigError(
                "longpole up is a whole server with its agent",
                hint=f"longpole server --role {self.role} runs a part of one",
            )
