"""A directory like `/proc` with a raylet and workers as a test describes them."""

import json
from collections.abc import Mapping
from pathlib import Path

SESSION = "session_2026-11-30_04-02-46_1_2"
NODE_ID = "3abf3aaed7e24fbd"


class RayNode:
    """Processes of a Ray node.

    Args:
        root: Where `proc` is made.
    """

    def __init__(self, root: Path) -> None:
        self.proc = root / "proc"
        self.proc.mkdir(parents=True)

    def add_raylet(self, pid: int, page_port: int | None = None, written_port: int = 0) -> None:
        """Add a raylet whose page's port was given, or was left to it and is written down."""
        session = f"/tmp/ray/{SESSION}"
        arguments = [
            "/env/ray/core/src/ray/raylet/raylet",
            f"--session_dir={session}",
            f"--node_id={NODE_ID}",
            "--node_ip_address=127.0.0.1",
            "--metrics-agent-port=0",
            f"--metrics_export_port={page_port or 0}",
            f"--session-name={SESSION}",
        ]
        directory = self._write(pid, arguments, {})
        inside = directory / "root" / session.lstrip("/")
        inside.mkdir(parents=True)
        if written_port:
            (inside / f"metrics_export_port_{NODE_ID}").write_text(str(written_port))

    def add_worker(
        self, pid: int, title: str, environ: Mapping[str, str], private_pages: int = 100
    ) -> None:
        """Add a worker."""
        directory = self._write(pid, [title], environ)
        (directory / "statm").write_text(f"9999 {private_pages + 50} 50 1 0 1 0\n")

    def add_other(self, pid: int, *arguments: str) -> None:
        """Add a process that is none of Ray's."""
        self._write(pid, arguments, {})

    def retitle(self, pid: int, title: str) -> None:
        """Let a worker do something else; Ray pads titles."""
        (self.proc / str(pid) / "cmdline").write_bytes(title.encode() + b" " * 40 + b"\0")

    def end(self, pid: int) -> None:
        """Let a process end."""
        directory = self.proc / str(pid)
        for file in directory.iterdir():
            if file.is_file():
                file.unlink()
        directory.rename(self.proc.parent / f"ended-{pid}")

    def write_old_ports(self, pid: int, port: int) -> None:
        """Write ports as older versions do."""
        session = self.proc / str(pid) / "root" / "tmp" / "ray" / SESSION
        ports = {"node": {"metrics_export_port": port}}
        (session / "ports_by_node.json").write_text(json.dumps(ports))

    def _write(
        self, pid: int, arguments: "list[str] | tuple[str, ...]", environ: Mapping[str, str]
    ) -> Path:
        directory = self.proc / str(pid)
        directory.mkdir()
        (directory / "cmdline").write_bytes("\0".join((*arguments, "")).encode())
        entries = "\0".join(f"{name}={value}" for name, value in environ.items())
        (directory / "environ").write_bytes(entries.encode())
        return directory
