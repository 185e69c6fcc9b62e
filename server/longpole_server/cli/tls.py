"""The server's own TLS: one certificate for HTTP, websockets and gRPC, renewed while it runs."""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import TypeAlias

import grpc

from longpole_server.config import Config
from longpole_server.errors import ConfigError

_logger = logging.getLogger(__name__)

# Certificates are renewed days before they end; a cluster's secret takes a minute by itself.
_LOOK_S = 10.0

_Stamps: TypeAlias = "tuple[tuple[int, int, int] | None, ...]"


class Certificate:
    """A certificate and its key, read again when their files change.

    While a new pair is wrong, the old one holds, and the log says so. Open connections keep what
    they began with.

    Raises:
        ConfigError: Certificate or key cannot be read, or do not belong together.
    """

    def __init__(self, certificate_file: Path, key_file: Path) -> None:
        self._certificate_file = certificate_file
        self._key_file = key_file
        self._seen: _Stamps = self._stat()
        self._pair = self._read()
        self.context = _make_context()
        self._load_into(self.context)

    def make_grpc_credentials(self) -> grpc.ServerCredentials:
        """Return what gRPC encrypts with; it asks for the newest pair with every connection."""

        def fetch() -> grpc.ServerCertificateConfiguration:
            return grpc.ssl_server_certificate_configuration([self._pair])

        return grpc.dynamic_ssl_server_credentials(
            fetch(), fetch, require_client_authentication=False
        )

    async def keep_fresh(self, look_s: float = _LOOK_S) -> None:
        """Look at the files now and then, until cancelled."""
        while True:
            await asyncio.sleep(look_s)
            self.refresh()

    def refresh(self) -> None:
        """Take up a new pair if there is one."""
        seen = self._stat()
        if seen == self._seen:
            return
        try:
            pair = self._read()
            # A half-written pair must not reach the context that is in use.
            self._load_into(_make_context())
            self._load_into(self.context)
        except ConfigError as error:
            # Looked at again: the other one of the two files may follow.
            _logger.error("%s; the certificate from before holds", error.message)
            return
        self._seen, self._pair = seen, pair
        _logger.info("a renewed certificate is in use")

    def _stat(self) -> _Stamps:
        return tuple(_stat(file) for file in (self._certificate_file, self._key_file))

    def _read(self) -> tuple[bytes, bytes]:
        try:
            return self._key_file.read_bytes(), self._certificate_file.read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from error

    def _load_into(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self._certificate_file, self._key_file, _refuse_password)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"cannot use the certificate {self._certificate_file} with the key"
                f" {self._key_file}: {error}",
                hint="both are PEM files: the certificate with its chain, the key without password",
            ) from error


def read_certificate(config: Config) -> Certificate | None:
    """Return what listeners encrypt with, None where none is configured.

    Raises:
        ConfigError: Certificate or key cannot be read, or do not belong together.
    """
    if config.tls_certificate_file is None or config.tls_key_file is None:
        return None
    return Certificate(config.tls_certificate_file, config.tls_key_file)


def _make_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _refuse_password() -> str:
    # The library would ask a terminal, and wait.
    raise ValueError("the key is protected by a password")


def _stat(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
