"""What the pages have an operator give Helm and Kubernetes: charts render, objects are ones."""
# pyright: reportMissingTypeStubs=false

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from longpole_agent.config import parse_config
from support.helm_child import CHART, NAMESPACE, RELEASE, HelmChild, find
from support.helm_modes import MODES, Values, merge

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "docs" / "operate.md", ROOT / "docs" / "deploy.md", CHART / "README.md")
_BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
_APPLIED = re.compile(r"kubectl -n (\w+) apply -f - <<END\n(.*?)^END$", re.MULTILINE | re.DOTALL)
_HELM = re.compile(r"^helm (?:install|upgrade) [^\n]*$(?:\n(?!helm|kubectl).*?^END$)?",
                   re.MULTILINE | re.DOTALL)  # fmt: skip


@pytest.fixture(scope="module")
def helm() -> Iterator[HelmChild]:
    child = HelmChild()
    yield child
    child.close()


def read_blocks(page: Path) -> str:
    blocks = "\n".join(_BLOCK.findall(page.read_text("utf-8")))
    return blocks.replace("\\\n", " ")


def list_helm_commands() -> Iterator[Any]:
    for page in PAGES:
        for command in _HELM.findall(read_blocks(page)):
            yield pytest.param(command, id=f"{page.stem}: {command.splitlines()[0][:70]}")


def read_values(command: str) -> Values:
    """Return what a command gives the chart by `--set` and `-f`."""
    line, _, rest = command.partition("\n")
    words = shlex.split(line.partition(" <<")[0], comments=True)
    values: Values = yaml.safe_load(rest.removesuffix("END")) if rest else {}
    for flag, word in pairwise(words):
        if flag == "-f" and word != "-":
            values = merge(values, yaml.safe_load((ROOT / word).read_text("utf-8")))
        if flag == "--set":
            for pair in word.split(","):
                path, _, value = pair.partition("=")
                given: Any = {"true": True, "false": False}.get(value, value)
                for key in reversed(path.split(".")):
                    given = {key: given}
                values = merge(values, given)
    return values


@pytest.mark.parametrize("command", list(list_helm_commands()))
def test_the_chart_takes_what_the_pages_give_it(helm: HelmChild, command: str) -> None:
    words = command.split()
    namespace = words[words.index("-n") + 1]
    assert namespace == NAMESPACE
    given = read_values(command)
    if words[1] == "upgrade":
        assert "--reset-then-reuse-values" in words
        given = merge(MODES["embedded"], given)
    assert helm.render(given)


def list_applied() -> "list[tuple[str, Any]]":
    return [
        (namespace, yaml.safe_load(text))
        for page in PAGES
        for namespace, text in _APPLIED.findall(read_blocks(page))
    ]


def test_the_drill_runs_on_a_claim_that_the_page_makes(helm: HelmChild) -> None:
    """Beside the first release: claim and snapshot belong to one namespace."""
    objects = {document["kind"]: (namespace, document) for namespace, document in list_applied()}
    _, claim = objects["PersistentVolumeClaim"]
    for version in ("1.26", str(kubernetes_validate.latest_version())):
        kubernetes_validate.validate(claim, version, strict=True)
    assert {namespace for namespace, _ in objects.values()} == {NAMESPACE}
    assert claim["spec"]["dataSource"]["name"] == objects["VolumeSnapshot"][1]["metadata"]["name"]
    (drill,) = (
        command for command in _HELM.findall(read_blocks(PAGES[0])) if "install drill" in command
    )
    values = read_values(drill)
    pod = find(helm.render(values), "StatefulSet", "-server")["spec"]["template"]["spec"]
    (data,) = (volume for volume in pod["volumes"] if volume["name"] == "data")
    assert data["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert "channels" not in {volume["name"] for volume in pod["volumes"]}
    assert any(word.startswith("--retention=") for word in pod["containers"][0]["args"])


def test_objects_that_the_pages_name_are_made_by_the_chart(helm: HelmChild) -> None:
    mode = merge(MODES["web"], {"server": {"persistence": {"size": "1Gi"}}})
    made = {
        f"{document['kind'].lower()}/{document['metadata']['name']}"
        for document in helm.render(mode)
    }
    named = re.compile(r"\b(statefulset|deployment|daemonset)[ /](longpole-[a-z]+)")
    found = {"/".join(pair) for page in PAGES for pair in named.findall(read_blocks(page))}
    assert len(found) == 3
    assert found <= made
    assert RELEASE == "longpole"


def test_nothing_is_scaled_before_its_pod_is_gone() -> None:
    """A snapshot beside a server that still ends is none of a server that is stopped."""
    for page in PAGES:
        for block in _BLOCK.findall(page.read_text("utf-8")):
            lines = block.splitlines()
            for line, after in pairwise(lines):
                if line.endswith("--replicas=0"):
                    assert "wait --for=delete pod/longpole-server-0" in after


def test_every_agent_of_ray_has_a_token(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "ray.md").read_text("utf-8")
    starts = [line for line in text.splitlines() if "longpole agent --" in line]
    assert len(starts) == 3
    assert all("LONGPOLE_TOKEN_FILE=" in line for line in starts)
    token = tmp_path / "token"
    token.write_text("secret")
    assert parse_config([], {"LONGPOLE_TOKEN_FILE": str(token)}).token == "secret"
    assert "http://longpole-server.observability.svc:8470" in text
