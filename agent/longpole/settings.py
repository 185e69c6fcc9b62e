"""Where the SDK sends, with what token, and how often: read once, at `init`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from longpole.errors import InvalidSetting

DEFAULT_ENDPOINT = "http://127.0.0.1:4318"
_OTEL_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_OTEL_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
_OTEL_CERTIFICATE = "OTEL_EXPORTER_OTLP_CERTIFICATE"
_LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The receiver's address, taken apart. `path` has no trailing slash."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def is_loopback(self) -> bool:
        """Whether the receiver runs on this machine."""
        return self.host in _LOOPBACK_HOSTS

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


@dataclass(frozen=True, slots=True)
class Settings:
    """How to reach the receiver.

    Attributes:
        read_token: Returns the bearer token or None; called off the trainer's threads, and again
            when the receiver refuses it, so that a rotated token file is followed.
        headers: `OTEL_EXPORTER_OTLP_HEADERS` as written, only when its endpoint is used too:
            another vendor's key never goes to Longpole's receiver.
        certificate_file: CA certificates for https, None for the system's.
        heartbeat_s: How often an open step or stage is announced again.
        delay_s: How long records wait for company before they are sent.
    """

    endpoint: Endpoint
    read_token: Callable[[], str | None]
    headers: str = ""
    certificate_file: str | None = None
    heartbeat_s: float = 10.0
    delay_s: float = 0.2


def read_settings(endpoint: str | None, token: str | None, environ: Mapping[str, str]) -> Settings:
    """Resolve arguments and environment.

    Raises:
        InvalidSetting: The endpoint or the heartbeat cannot be used.
    """
    chosen = endpoint or environ.get("LONGPOLE_ENDPOINT")
    is_otel_endpoint = not chosen and bool(environ.get(_OTEL_ENDPOINT))
    return Settings(
        endpoint=parse_endpoint(chosen or environ.get(_OTEL_ENDPOINT) or DEFAULT_ENDPOINT),
        read_token=_find_token(token, environ),
        headers=environ.get(_OTEL_HEADERS, "") if is_otel_endpoint else "",
        certificate_file=environ.get(_OTEL_CERTIFICATE) or None,
        heartbeat_s=_read_heartbeat_s(environ),
    )


def parse_endpoint(text: str) -> Endpoint:
    """Take an endpoint such as `http://127.0.0.1:4318` apart.

    Raises:
        InvalidSetting: It is no http or https address.
    """
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:
        raise InvalidSetting(f"endpoint {text!r}: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidSetting(f"endpoint {text!r} must look like {DEFAULT_ENDPOINT}")
    default_port = 443 if parts.scheme == "https" else 80
    return Endpoint(parts.scheme, parts.hostname, port or default_port, parts.path.rstrip("/"))


def _find_token(token: str | None, environ: Mapping[str, str]) -> Callable[[], str | None]:
    fixed = token or environ.get("LONGPOLE_TOKEN") or None
    file = environ.get("LONGPOLE_TOKEN_FILE")
    if fixed is not None or not file:
        return lambda: _check_token(fixed)
    path = Path(file)
    return lambda: _check_token(_read_token_file(path))


def _read_token_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise InvalidSetting(f"LONGPOLE_TOKEN_FILE {path}: {error}") from error


def _check_token(token: str | None) -> str | None:
    if token is None:
        return None
    stripped = token.strip()
    if not stripped.isascii() or not stripped.isprintable():
        raise InvalidSetting("the token holds characters that a header cannot carry")
    return stripped or None


def _read_heartbeat_s(environ: Mapping[str, str]) -> float:
    text = environ.get("LONGPOLE_HEARTBEAT_S", "10")
    try:
        heartbeat_s = float(text)
    except ValueError as error:
        raise InvalidSetting(f"LONGPOLE_HEARTBEAT_S={text!r} is no number of seconds") from error
    if not 0.01 <= heartbeat_s <= 3600:
        raise InvalidSetting(f"LONGPOLE_HEARTBEAT_S={text!r} must be 0.01 to 3600 seconds")
    return heartbeat_s
