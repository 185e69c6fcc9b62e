"""A ClickHouse server as far as its HTTP interface goes: the embedded engine behind it.

Run as a program it serves a directory until it is killed; it stands in its own process since the
engine opens one directory in each. It can be told to fail: `POST /fault` with

    {"kind": "status" | "error" | "reset" | "reset_after" | "status_after" | "die" | "slow",
     "count": n, "match": text, "status": 503, "delay_s": 0.5, "text": text}

makes the next `count` requests whose statement holds `match` fail before the work (`status`,
`error` as ClickHouse says one, `reset`), after it but before the answer (`reset_after`,
`status_after`), late (`slow`), or with the program, which is gone after the work within a moment
(`die`).
"""

# pyright: reportUnknownMemberType=false

import gzip
import importlib
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from support.agent_waiting import wait_until

_INSERT = re.compile(
    r"\s*INSERT INTO\s+(?P<table>[\w.`]+)\s*(?:\((?P<columns>[^)]*)\))?"
    r"\s*FORMAT\s+(?P<form>\w+)\s*",
    re.IGNORECASE,
)
_NO_SETTINGS = {
    "query", "database", "query_id", "session_id", "wait_end_of_query", "quota_key",
    "send_progress_in_http_headers", "http_headers_progress_interval_ms", "enable_http_compression",
    "client_protocol_version", "default_format", "compress", "decompress", "user", "password",
    "cancel_http_readonly_queries_on_client_close",
}  # fmt: skip
_TOKEN = "insert_deduplication_token"


@dataclass
class Fault:
    """What goes wrong with the next requests."""

    kind: str
    count: int
    match: str = ""
    status: int = 503
    delay_s: float = 0.2
    text: str = ""


class Engine:
    """The embedded engine; one connection for each combination of settings."""

    def __init__(self, directory: Path, config_file: str | None) -> None:
        self._directory = directory
        self._options = {"config-file": config_file} if config_file else {}
        self._clients: dict[tuple[tuple[str, str], ...], Any] = {}
        self._lock = threading.Lock()

    def run(self, statement: bytes, parameters: Mapping[str, str], database: str | None) -> bytes:
        settings = {
            name: value
            for name, value in parameters.items()
            if name not in _NO_SETTINGS and not name.startswith("param_")
        }
        token = settings.pop(_TOKEN, None)
        with self._lock:
            client = self._connect(settings)
            client.database = database
            insert = _INSERT.match(statement.split(b"\n", 1)[0].decode("utf-8", "replace"))
            if insert is not None:
                return self._insert(client, insert, statement, token)
            return self._query(client, statement.decode(), parameters)

    def _connect(self, settings: dict[str, str]) -> Any:
        import clickhouse_connect

        key = tuple(sorted(settings.items()))
        if key not in self._clients:
            ordered = {name: settings[name] for name in sorted(settings, key="readonly".__eq__)}
            self._clients[key] = clickhouse_connect.get_client(
                interface="chdb", path=str(self._directory), chdb_options=self._options,
                settings=ordered,
            )  # fmt: skip
        return self._clients[key]

    def _insert(
        self, client: Any, insert: "re.Match[str]", statement: bytes, token: str | None
    ) -> bytes:
        columns = [name.strip().strip("`") for name in (insert["columns"] or "").split(",")]
        client.raw_insert(
            insert["table"],
            column_names=columns if insert["columns"] else None,
            insert_block=statement.split(b"\n", 1)[1],
            settings={_TOKEN: token} if token else {},
            fmt=insert["form"],
        )
        return b""

    def _query(self, client: Any, sql: str, parameters: Mapping[str, str]) -> bytes:
        from longpole_server.store.client import EscapedText

        bound = {
            name.removeprefix("param_"): EscapedText(value)
            for name, value in parameters.items()
            if name.startswith("param_")
        }
        return client.raw_query(sql, bound or None)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    engine: Engine
    credentials: tuple[str, str] | None
    faults: list[Fault]
    statements: list[str]

    def do_GET(self) -> None:
        if self.path == "/statements":
            self._send(200, json.dumps(self.statements).encode())
        else:
            self._send(200, b"Ok.\n")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if "chunked" in self.headers.get("transfer-encoding", ""):
            body = self._read_chunks()
        body = _decompress(body, self.headers.get("content-encoding"))
        if self.path == "/fault":
            self.faults.append(Fault(**json.loads(body)))
            self._send(200, b"")
            return
        parameters = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        if query := parameters.get("query"):
            body = query.encode() + b"\n" + body
        self.statements.append(body[:300].decode("utf-8", "replace"))
        self._work(body, parameters)

    def _work(self, statement: bytes, parameters: dict[str, str]) -> None:
        fault = self._take_fault(statement)
        if fault is not None and fault.kind == "slow":
            time.sleep(fault.delay_s)
        if fault is not None and fault.kind == "status":
            self._send(fault.status, b"not now")
            return
        if fault is not None and fault.kind == "error":
            self._fail(fault.text)
            return
        if fault is not None and fault.kind == "die":
            # Amid the work, or after it: as it comes.
            threading.Timer(fault.delay_s, os.kill, (os.getpid(), signal.SIGKILL)).start()
        if fault is not None and fault.kind == "reset":
            self._reset()
            return
        if not self._is_authorized():
            self._fail("Code: 516. DB::Exception: default: Authentication failed.")
            return
        try:
            answer = self.engine.run(statement, parameters, parameters.get("database"))
        except Exception as error:  # noqa: BLE001 - the client is told, as of any other
            self._fail(str(error))
            return
        if fault is not None and fault.kind == "reset_after":
            self._reset()
            return
        if fault is not None and fault.kind == "status_after":
            self._send(fault.status, b"Code: 210. DB::NetException: it was done")
            return
        self._send(200, answer)

    def _take_fault(self, statement: bytes) -> Fault | None:
        for fault in self.faults:
            if fault.count > 0 and fault.match.encode() in statement:
                fault.count -= 1
                return fault
        return None

    def _is_authorized(self) -> bool:
        if self.credentials is None:
            return True
        import base64

        user, password = self.credentials
        expected = base64.b64encode(f"{user}:{password}".encode()).decode()
        if self.headers.get("authorization") == f"Basic {expected}":
            return True
        by_certificate = self.headers.get("x-clickhouse-ssl-certificate-auth") == "on"
        return by_certificate and self.headers.get("x-clickhouse-user") == user

    def _read_chunks(self) -> bytes:
        parts: list[bytes] = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _fail(self, message: str) -> None:
        match = re.search(r"[Cc]ode:? (\d+)", message)
        self._send(
            500, message.encode(), {"X-ClickHouse-Exception-Code": match[1] if match else "1"}
        )

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-ClickHouse-Timezone", "UTC")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.close()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


def _decompress(body: bytes, encoding: str | None) -> bytes:
    if encoding == "gzip":
        return gzip.decompress(body)
    if encoding == "lz4":
        lz4: Any = importlib.import_module("lz4.frame")
        return lz4.decompress(body)
    return body


@dataclass
class ClickHouseFront:
    """The program in its own process.

    Args:
        directory: For its data, its port and its log; give the same one to start it again.
        user, password: Who may ask; nobody is asked without them.
        config_file: More of the engine's configuration.
        certificates: Directory with `ca.pem`, `server.pem`; TLS, and only for clients with a
            certificate of that authority.
    """

    directory: Path
    user: str | None = None
    password: str = ""
    config_file: str | None = None
    certificates: Path | None = None
    port: int = 0
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"{'https' if self.certificates else 'http'}://localhost:{self.port}"

    def start(self) -> "ClickHouseFront":
        port_file = self.directory / "port"
        port_file.unlink(missing_ok=True)
        options = {
            "directory": str(self.directory / "engine"),
            "port_file": str(port_file),
            "port": self.port,
            "credentials": [self.user, self.password] if self.user else None,
            "config_file": self.config_file,
            "certificates": str(self.certificates) if self.certificates else None,
        }
        with (self.directory / "log").open("ab") as log:
            process = self._process = subprocess.Popen(
                [sys.executable, "-m", "support.clickhouse_front", json.dumps(options)],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        wait_until(lambda: port_file.exists() or process.poll() is not None)
        assert process.poll() is None, (self.directory / "log").read_text()
        self.port = int(port_file.read_text())
        return self

    def wait_for_end(self) -> None:
        """Wait until a fault has ended the program."""
        if self._process is not None:
            self._process.wait()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def fail(self, kind: str, count: int, match: str = "", **more: float | str) -> None:
        """Let the next requests fail."""
        fault = {"kind": kind, "count": count, "match": match, **more}
        request = urllib.request.Request(f"{self.url}/fault", json.dumps(fault).encode())
        urllib.request.urlopen(request, timeout=60).close()

    def list_statements(self) -> list[str]:
        """Return the beginnings of all statements so far."""
        with urllib.request.urlopen(f"{self.url}/statements", timeout=60) as answer:
            return json.load(answer)


def main() -> None:
    options = json.loads(sys.argv[1])
    Handler.engine = Engine(Path(options["directory"]), options["config_file"])
    Handler.credentials = tuple(options["credentials"]) if options["credentials"] else None
    Handler.faults, Handler.statements = [], []
    server = ThreadingHTTPServer(("127.0.0.1", options["port"]), Handler)
    if options["certificates"]:
        certificates = Path(options["certificates"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "server.pem")
        context.load_verify_locations(certificates / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        server.socket = context.wrap_socket(server.socket, server_side=True)
    port_file = Path(options["port_file"])
    partial = port_file.with_suffix(".partial")
    partial.write_text(str(server.server_address[1]))
    partial.rename(port_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
