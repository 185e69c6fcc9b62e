"""Writes what an image is made of, in CycloneDX's form: its locked packages, and this project.

python deploy/images/write_sbom.py agent dist/longpole-agent.cdx.json
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_VERSION = re.compile(r'__version__ = "(?P<version>[^"]+)"')


def main(image: str, file: Path) -> None:
    """Write the file of an image, `agent` or `server`: the same bytes each time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-W", "ignore", "-m", "cyclonedx_py", "requirements"),
        *("--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "--of", "JSON"),
        *("--output-file", str(file), str(ROOT / "deploy" / "images" / f"{image}.lock")),
    ]
    subprocess.run(command, check=True)  # noqa: S603 - words of our own
    document = json.loads(file.read_text("utf-8"))
    _complete(document, image, read_version())
    file.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", "utf-8")


def read_version() -> str:
    """Return this project's version."""
    text = (ROOT / "agent" / "longpole" / "_version.py").read_text("utf-8")
    found = _VERSION.search(text)
    if found is None:
        raise SystemExit("agent/longpole/_version.py holds no version")
    return found["version"]


def _complete(document: dict[str, Any], image: str, version: str) -> None:
    """Add what the lock does not say: which release this is, and that it holds all of these."""
    root: dict[str, Any] = document["metadata"]["component"]
    root |= {"name": f"longpole-{image}", "version": version}
    parts = sorted(part["bom-ref"] for part in document["components"])
    others = [entry for entry in document["dependencies"] if entry["ref"] != root["bom-ref"]]
    document["dependencies"] = [{"ref": root["bom-ref"], "dependsOn": parts}, *others]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
