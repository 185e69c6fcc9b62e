"""The real agent in its own process."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.agent_waiting import wait_until


class AgentProcess:
    """`longpole agent` on free ports.

    Args:
        directory: For its data, ports file and log; give the same one to start it again.
        server: Address of the server.
        arguments: More options.
        environment: Added to this process's environment.
    """

    def __init__(
        self,
        directory: Path,
        server: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self._ports_file = directory / "ports.json"
        self._ports_file.unlink(missing_ok=True)
        self._log = directory / "log"
        command = [
            sys.executable, "-m", "longpole.cli", "agent",
            "--server", server, "--data-dir", str(directory / "data"),
            "--otlp-http-port", "0", "--otlp-grpc-port", "0",
            "--ports-file", str(self._ports_file), *arguments,
        ]  # fmt: skip
        paths = os.pathsep.join(sys.path)
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                command,
                stderr=log,
                stdout=log,
                env={**os.environ, "PYTHONPATH": paths, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    def ports(self) -> dict[str, int | None]:
        """Return the ports once the agent listens."""
        wait_until(lambda: self._ports_file.exists() or self._process.poll() is not None)
        assert self._process.poll() is None, self.log
        return json.loads(self._ports_file.read_text())

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send an OTLP request; return status, headers and body of the answer."""
        return self._request("POST", path, body, headers)

    def health(self) -> dict[str, Any]:
        status, _, body = self._request("GET", "/health", b"", {})
        assert status == 200
        return json.loads(body)

    def get(self, path: str, host: str | None = None) -> int:
        """Return the status that a path answers, also when called by another name."""
        return self._request("GET", path, b"", {} if host is None else {"Host": host})[0]

    def metrics(self) -> str:
        """Return the agent's own figures in Prometheus' text format."""
        status, _, body = self._request("GET", "/metrics", b"", {})
        assert status == 200
        return body.decode()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Interrupt the agent and return its exit status."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(timeout=60)

    def wait(self) -> int:
        return self._process.wait(timeout=60)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _request(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports()["http"], timeout=60)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()
