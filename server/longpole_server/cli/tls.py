"""The server's own TLS: the same certificate for HTTP, websockets and gRPC."""

import ssl

import grpc

from longpole_server.config import Config
from longpole_server.errors import ConfigError


def read_tls(config: Config) -> ssl.SSLContext | None:
    """Return what listeners encrypt with, None where none is configured.

    Raises:
        ConfigError: Certificate or key cannot be read, or do not belong together.
    """
    if config.tls_certificate_file is None or config.tls_key_file is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.tls_certificate_file, config.tls_key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"cannot use the certificate {config.tls_certificate_file} with the key"
            f" {config.tls_key_file}: {error}",
            hint="both are PEM files, the certificate with its chain",
        ) from error
    return context


def read_grpc_credentials(config: Config) -> grpc.ServerCredentials | None:
    """Return the same for gRPC.

    Raises:
        ConfigError: A file cannot be read.
    """
    if config.tls_certificate_file is None or config.tls_key_file is None:
        return None
    try:
        pair = config.tls_key_file.read_bytes(), config.tls_certificate_file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from error
    return grpc.ssl_server_credentials([pair])
