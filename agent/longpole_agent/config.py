"""The agent's options: declared once, parsed once, frozen.

Every option `--a-b` is also the variable `LONGPOLE_A_B`; the command line wins. The token is never
an option: `LONGPOLE_TOKEN`, or a file.
"""

import argparse
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from longpole.log_lines import parse_form
from longpole.options import HelpfulParser
from longpole_agent.errors import ConfigError
from longpole_agent.targets import Target, parse_static_targets


@dataclass(frozen=True, slots=True)
class Config:
    """What the operator asked for. Fields are the options' names; see their help."""

    server: str
    token: str
    otlp_host: str
    otlp_http_port: int
    otlp_grpc_port: int
    no_otlp: bool
    require_otlp: bool
    ports_file: Path | None
    host_name: str
    interval_s: float
    no_scrape: bool
    no_discovery: bool
    scrape_targets: tuple[Target, ...]
    scrape_interval_s: float
    no_nvml: bool
    no_gpm: bool
    no_ray: bool
    require_gpus: bool
    record_nvml: Path | None
    compare_nvidia_smi: int
    nvml_retry_s: float
    pod_resources_socket: Path | None
    simulated_gpus: Path | None
    data_dir: Path
    spool_bytes: int
    spool_hours: int
    max_request_bytes: int
    log_format: str


@dataclass(frozen=True, slots=True)
class _Option:
    name: str
    parse: Callable[[str], Any]
    default: str
    metavar: str
    help: str


def _parse_port(text: str) -> int:
    return _parse_whole(text, 0, 65535)


def _parse_whole(text: str, least: int, most: int = sys.maxsize) -> int:
    number = int(text) if text.isdecimal() else least - 1
    if not least <= number <= most:
        raise ValueError(f"{text!r} is no whole number from {least} on")
    return number


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.01 <= seconds <= 86400.0:
        raise ValueError(f"{text!r} is no number of seconds from 0.01 to 86400")
    return seconds


def _parse_path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


_OPTIONS = (
    _Option("server", str, "http://127.0.0.1:8470", "URL", "address of the Longpole server"),
    _Option("token-file", _parse_path, "", "FILE", "holds the token sent to the server"),
    _Option("otlp-host", str, "127.0.0.1", "HOST", "where trainers' data is received"),
    _Option("otlp-http-port", _parse_port, "4318", "PORT", "OTLP/HTTP; 0 for any free port"),
    _Option("otlp-grpc-port", _parse_port, "4317", "PORT", "OTLP/gRPC; 0 for any free port"),
    _Option("ports-file", _parse_path, "", "FILE", "written as JSON once listening"),
    _Option("host-name", str, "", "NAME", "name of this node; default: what the system says"),
    _Option("interval-s", _parse_seconds, "1.0", "SECONDS", "time between samples"),
    _Option("nvml-retry-s", _parse_seconds, "5.0", "SECONDS", "until lost GPUs are looked for"),
    _Option(
        "record-nvml", _parse_path, "", "FILE",
        "write what the GPUs of this machine answer to a file, in a few seconds, and end",
    ),
    _Option(
        "compare-nvidia-smi", lambda text: _parse_whole(text, 0, 3600), "0", "SECONDS",
        "show what is read of the GPUs beside what nvidia-smi says, for so long, and end",
    ),
    _Option(
        "pod-resources-socket", _parse_path, "/var/lib/kubelet/pod-resources/kubelet.sock", "FILE",
        "where the kubelet tells which pod holds which GPU; empty: it is not asked",
    ),
    _Option(
        "scrape-targets", parse_static_targets, "", "JOB=HOST:PORT@RUN,...",
        "Prometheus pages of engines beside the registered ones; job and run may be left out",
    ),
    _Option("scrape-interval-s", _parse_seconds, "2.0", "SECONDS", "time between two scrapes"),
    _Option("simulated-gpus", _parse_path, "", "FILE", "GPUs that a simulator pretends"),
    _Option("data-dir", _parse_path, "", "DIR", "spool and identity; default: user data"),
    _Option(
        "spool-bytes", lambda text: _parse_whole(text, 1 << 20), str(1 << 30), "BYTES",
        "bound of what waits for the server; the oldest is dropped first",
    ),
    _Option(
        "spool-hours", lambda text: _parse_whole(text, 1), "168", "HOURS",
        "what waits longer for the server is dropped, as if the spool were full",
    ),
    _Option(
        "max-request-bytes", lambda text: _parse_whole(text, 1024), str(64 << 20), "BYTES",
        "bound of one request, decompressed",
    ),
    _Option("log-format", parse_form, "text", "FORM", "of log lines: text, or json"),
)  # fmt: skip
_FLAGS = {
    "no-otlp": "receive nothing from trainers",
    "require-otlp": "exit with status 2 when a port is taken",
    "no-scrape": "scrape no Prometheus pages",
    "no-discovery": "look for no engines beside registered and named ones",
    "no-nvml": "do not look for NVIDIA GPUs",
    "no-ray": "do not look at Ray's workers and at its page",
    "require-gpus": "not ready (GET /ready) while no GPU answers, not even at first",
    "no-gpm": "leave NVIDIA's activity counters to somebody else (DCGM)",
}
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})


class _Parser(HelpfulParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, "see longpole agent --help")


def parse_config(arguments: Sequence[str], environment: Mapping[str, str]) -> Config:
    """Return the configuration from the command line and the environment.

    Raises:
        ConfigError: An option or a variable that cannot be.
        SystemExit: After `--help`.
    """
    given = vars(_make_parser().parse_args(list(arguments)))
    values: dict[str, Any] = {}
    for option in _OPTIONS:
        text = given[_field(option.name)]
        if text is None:
            text = environment.get(_variable(option.name), option.default)
        try:
            values[_field(option.name)] = option.parse(text)
        except ValueError as error:
            raise ConfigError(f"--{option.name}: {error}") from error
    for flag in _FLAGS:
        text = environment.get(_variable(flag), "").lower()
        if text not in _TRUE | _FALSE:
            raise ConfigError(f"{_variable(flag)}: {text!r} is neither true nor false")
        values[_field(flag)] = given[_field(flag)] or text in _TRUE
    token_file = values.pop("token_file")
    values["token"] = _read_token(given["token_file"] is not None, token_file, environment)
    values["host_name"] = values["host_name"] or socket.gethostname()
    values["data_dir"] = values["data_dir"] or _find_data_directory(environment)
    return Config(**values)


def _make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="longpole agent",
        description="Samples this node's hardware, receives trainers' data, delivers both.",
        epilog="Every option --a-b is also LONGPOLE_A_B. Token: LONGPOLE_TOKEN or --token-file.",
        allow_abbrev=False,
    )
    for option in _OPTIONS:
        default = f" (default {option.default})" if option.default else ""
        parser.add_argument(f"--{option.name}", metavar=option.metavar, help=option.help + default)
    for flag, help_text in _FLAGS.items():
        parser.add_argument(f"--{flag}", action="store_true", help=help_text)
    return parser


def _read_token(by_option: bool, path: Path | None, environment: Mapping[str, str]) -> str:
    token = environment.get("LONGPOLE_TOKEN", "").strip()
    if path is None or (token and not by_option):
        return token
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the token from {path}: {error}") from error


def _find_data_directory(environment: Mapping[str, str]) -> Path:
    """Return where this platform keeps a user's data."""
    home = Path.home()
    if sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        base = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    return base / "longpole" / "agent"


def _field(name: str) -> str:
    return name.replace("-", "_")


def _variable(name: str) -> str:
    return "LONGPOLE_" + _field(name).upper()
