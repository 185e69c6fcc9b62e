"""The server's certificate: used by all listeners, and exchanged while they run."""

import asyncio
import contextlib
import logging
import shutil
import socket
import ssl
from collections.abc import AsyncGenerator
from pathlib import Path

import grpc
import pytest

from longpole_server.cli.tls import Certificate, read_certificate
from longpole_server.config import Config
from longpole_server.errors import ConfigError
from support.certificates import make_certificates

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return tuple(make_certificates(tmp_path_factory.mktemp(name)) for name in ("old", "new"))  # type: ignore[return-value]


def put(pair: Path, directory: Path, *names: str) -> None:
    """Exchange files as the kubelet does: all at once, under the same name."""
    for name in names or ("server.crt", "server.key"):
        partial = directory / f".{name}"
        partial.write_bytes((pair / name).read_bytes())
        partial.replace(directory / name)


def read(directory: Path) -> Certificate:
    certificate = read_certificate(
        Config(tls_certificate_file=directory / "server.crt", tls_key_file=directory / "server.key")
    )
    assert certificate is not None
    return certificate


def trusts(pair: Path, port: int) -> bool:
    """Tell whether who trusts an authority trusts who listens."""
    context = ssl.create_default_context(cafile=str(pair / "ca.pem"))
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname="localhost"),
        ):
            return True
    except ssl.SSLCertVerificationError:
        return False


@contextlib.asynccontextmanager
async def listening(certificate: Certificate) -> AsyncGenerator[tuple[int, int]]:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    http = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=certificate.context)
    server = grpc.aio.server()
    port = server.add_secure_port("127.0.0.1:0", certificate.make_grpc_credentials())
    await server.start()
    async with http:
        yield http.sockets[0].getsockname()[1], port
    await server.stop(None)


async def test_a_renewed_certificate_is_taken_up_by_all_listeners(
    pairs: tuple[Path, Path], tmp_path: Path
):
    old, new = pairs
    put(old, tmp_path)
    certificate = read(tmp_path)
    async with listening(certificate) as ports:
        for port in ports:
            assert await asyncio.to_thread(trusts, old, port)
        put(new, tmp_path)
        task = asyncio.create_task(certificate.keep_fresh(look_s=0.01))
        for port in ports:
            while not await asyncio.to_thread(trusts, new, port):
                await asyncio.sleep(0.01)
        task.cancel()


async def test_half_of_a_renewed_pair_is_waited_for(
    pairs: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    old, new = pairs
    put(old, tmp_path)
    certificate = read(tmp_path)
    async with listening(certificate) as ports:
        put(new, tmp_path, "server.crt")
        with caplog.at_level(logging.ERROR):
            certificate.refresh()
        assert "the certificate from before holds" in caplog.text
        for port in ports:
            assert await asyncio.to_thread(trusts, old, port)
        put(new, tmp_path, "server.key")
        certificate.refresh()
        for port in ports:
            assert await asyncio.to_thread(trusts, new, port)


def test_without_files_nothing_is_encrypted():
    assert read_certificate(Config()) is None


def test_what_cannot_be_used_is_said(pairs: tuple[Path, Path], tmp_path: Path):
    with pytest.raises(ConfigError, match=r"cannot read .*server.key: No such file"):
        read(tmp_path)
    put(pairs[0], tmp_path, "server.key")
    (tmp_path / "server.crt").write_text("no certificate")
    with pytest.raises(ConfigError, match="cannot use the certificate"):
        read(tmp_path)


def test_a_key_with_a_password_is_refused_and_nobody_is_asked(
    pairs: tuple[Path, Path], tmp_path: Path
):
    put(pairs[0], tmp_path, "server.crt")
    locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n"
    (tmp_path / "server.key").write_text(locked)
    with pytest.raises(ConfigError, match="cannot use the certificate"):
        read(tmp_path)
