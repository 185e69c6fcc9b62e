"""An authority with a certificate for this machine and one for a client, made by openssl."""

import subprocess
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")


def make_certificates(directory: Path) -> Path:
    """Return a directory with `ca.pem`, `server.pem` and `client.pem` (each with its key)."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)

    (directory / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("req", "-x509", *_KEY, "-nodes", "-days", "30", "-subj", "/CN=ca",
            "-keyout", "ca.key", "-out", "ca.pem")  # fmt: skip
    for name in ("server", "client"):
        openssl("req", *_KEY, "-nodes", "-subj", f"/CN={name}",
                "-keyout", f"{name}.key", "-out", f"{name}.csr")  # fmt: skip
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-days", "30", "-extfile", "names",
                "-out", f"{name}.crt")  # fmt: skip
        both = (directory / f"{name}.crt").read_text() + (directory / f"{name}.key").read_text()
        (directory / f"{name}.pem").write_text(both)
    return directory
