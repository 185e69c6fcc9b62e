"""What `make sbom` writes names every package of an image, and the release that it is."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from longpole import __version__
from support.distributions import ROOT

_LOCKED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ ;\\\\]+)", re.MULTILINE)


@pytest.fixture(scope="module")
def write_sbom() -> ModuleType:
    file = ROOT / "deploy" / "images" / "write_sbom.py"
    spec = importlib.util.spec_from_file_location("write_sbom", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_locked_package_is_named(write_sbom: ModuleType, tmp_path: Path) -> None:
    image = "agent"
    if importlib.util.find_spec("cyclonedx_py") is None:
        pytest.skip("cyclonedx-bom is not installed (make test)")
    file = tmp_path / "dist" / "sbom.json"
    write_sbom.main(image, file)
    document = json.loads(file.read_text())
    lock = (ROOT / "deploy" / "images" / f"{image}.lock").read_text()
    named = {(part["name"].lower(), part["version"]) for part in document["components"]}
    assert named == set(_LOCKED.findall(lock))
    root = document["metadata"]["component"]
    assert (root["name"], root["version"]) == (f"longpole-{image}", __version__)
    assert len(document["dependencies"][0]["dependsOn"]) == len(document["components"])
