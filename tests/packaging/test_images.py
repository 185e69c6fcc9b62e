"""Dockerfiles, compose file and systemd units, as far as they can be held to something here."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import tomllib
import yaml

from longpole_agent.config import parse_config
from longpole_server.config import Config, read_config
from support.agent_waiting import wait_until
from support.distributions import ROOT, copy_source
from support.fresh_environments import clean_environment, skip_without_index

DOCKERFILES = ("Dockerfile.agent", "Dockerfile.server")
COMPOSE = ROOT / "deploy" / "compose" / "compose.yaml"
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
NOBODY = 65532


def read_instructions(name: str) -> list[tuple[str, str]]:
    """Return instructions and their arguments, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (ROOT / name).read_text("utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines]


def find_all(name: str, instruction: str) -> list[str]:
    return [words for found, words in read_instructions(name) if found == instruction]


def read_pins(path: Path) -> dict[str, str]:
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", path.read_text("utf-8"), re.MULTILINE)
    return {str(name): str(version) for name, version in found}


@pytest.mark.parametrize("name", DOCKERFILES)
def test_hadolint_finds_nothing(name: str) -> None:
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([program, ROOT / name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", DOCKERFILES)
def test_images_are_small_and_run_as_nobody(name: str) -> None:
    instructions = read_instructions(name)
    assert [words for found, words in instructions if found == "FROM"] == [
        "${BASE} AS build",
        "${BASE}",
    ]
    (base,) = find_all(name, "ARG")
    assert re.fullmatch(r"BASE=python:3\.\d+\.\d+-slim-\w+", base)
    last = max(index for index, (found, _) in enumerate(instructions) if found == "FROM")
    final = instructions[last:]
    assert ("USER", "65532:65532") in final
    # What it was built with stays behind.
    assert [words for found, words in final if found == "COPY"] == [
        "--from=build /opt/longpole /opt/longpole"
    ]


def test_both_images_are_built_alike() -> None:
    def read(name: str) -> list[tuple[str, str]]:
        kind = name.rpartition(".")[2]
        return [
            (found, words.replace(f"{kind}.lock", "THE.lock"))
            for found, words in read_instructions(name)
            if found in {"FROM", "ARG", "RUN", "COPY", "ENV", "USER", "WORKDIR"}
        ]

    assert read("Dockerfile.agent") == read("Dockerfile.server")


@pytest.mark.parametrize("name", DOCKERFILES)
def test_what_is_copied_is_there_and_let_through(name: str) -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] != "#"]
    kept = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    assert rules[0] == "*"
    for words in find_all(name, "COPY"):
        if words.startswith("--from"):
            continue
        for source in words.split()[:-1]:
            assert (ROOT / source).exists()
            assert any(fnmatch(source, pattern) for pattern in kept)


def test_locks_are_parts_of_the_one_that_is_tested() -> None:
    tested = read_pins(ROOT / "requirements.lock") | read_pins(ROOT / "requirements-deploy.lock")
    for lock in (ROOT / "deploy" / "images").glob("*.lock"):
        pins = read_pins(lock)
        assert pins
        assert {name: pin for name, pin in pins.items() if tested.get(name) != pin} == {}, (
            "make lock"
        )


@pytest.mark.parametrize(
    ("image", "extras"), [("agent", ["agent"]), ("server", ["server", "analysis", "pictures"])]
)
def test_locks_have_all_that_is_asked_for(image: str, extras: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    names = {re.split(r"[<>=\[; ]", one)[0].lower() for one in wanted} - {"longpole"}
    assert names <= read_pins(ROOT / "deploy" / "images" / f"{image}.lock").keys(), "make lock"


def test_the_agents_image_has_nothing_of_the_server() -> None:
    agent = read_pins(ROOT / "deploy" / "images" / "agent.lock")
    heavy = {"numpy", "pandas", "pyarrow", "scipy", "chdb", "dash", "plotly", "fastapi", "apprise"}
    assert heavy & agent.keys() == set()
    assert {"nvidia-ml-py", "grpcio"} <= agent.keys()
    server = read_pins(ROOT / "deploy" / "images" / "server.lock")
    assert {"chdb", "dash", "pillow"} <= server.keys()
    assert "nvidia-ml-py" not in server


@pytest.mark.parametrize("name", DOCKERFILES)
def test_entry_points_are_commands(name: str, tmp_path: Path) -> None:
    (entry,), (command,) = find_all(name, "ENTRYPOINT"), find_all(name, "CMD")
    assert json.loads(entry) == ["longpole"]
    program, *words = json.loads(command)
    exposed = set(find_all(name, "EXPOSE")[0].split())
    if program == "agent":
        agent = parse_config(words, {})
        assert exposed == {str(agent.otlp_http_port), str(agent.otlp_grpc_port)}
    else:
        server = read_config(Config, "server", words, {"LONGPOLE_TOKEN": "a"})
        ports = (server.port, server.otlp_http_port, server.otlp_grpc_port)
        assert exposed == {str(port) for port in ports}


def run_as(
    user: int | None, command: list[str], cwd: Path, environment: dict[str, str]
) -> "subprocess.Popen[str]":
    """Start a program as a user who owns nothing; as oneself where None is given."""
    with (cwd / "log").open("w") as log:
        return subprocess.Popen(
            command, cwd=cwd, env=environment, stdout=log, stderr=log, text=True,
            user=user, group=user, extra_groups=[] if user else None,
        )  # fmt: skip


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder that every user can look into, as pytest's own is not."""
    with tempfile.TemporaryDirectory(prefix="longpole-image-") as directory:
        path = Path(directory)
        path.chmod(0o755)
        yield path


def find_shared_interpreter() -> tuple[str, int | None]:
    """Return an interpreter, and who runs it: nobody, where the interpreter is everybody's."""
    system = "/usr/bin/python3"
    program = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
    if os.geteuid() == 0 and Path(system).exists():
        done = subprocess.run([system, "-c", program], capture_output=True, check=False)
        if done.returncode == 0:
            return system, NOBODY
    return sys.executable, None


def test_the_agents_image_by_its_own_commands(open_path: Path) -> None:
    """The build stage's RUN lines as they stand, elsewhere; then the entry point as its user."""
    interpreter, user = find_shared_interpreter()
    source, opt = open_path / "src", open_path / "opt"
    copy_source(source)
    for path in (source / "deploy" / "images").glob("*.lock"):
        shutil.copy(path, source / path.name)
    for path in sorted(source.rglob("*"), reverse=True):
        path.chmod(0o555 if path.is_dir() else 0o444)
    cache = Path.home() / ".cache" / "pip"
    for words in find_all("Dockerfile.agent", "RUN")[:2]:
        line = words.partition(" ")[2] if words.startswith("--mount") else words
        line = line.replace("/opt/", f"{opt}/").replace("python -m venv", f"{interpreter} -m venv")
        environment = {**clean_environment(open_path), "PIP_CACHE_DIR": str(cache)}
        kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        done = subprocess.run(
            ["/bin/sh", "-euc", line], cwd=source, env={**environment, **kept},
            capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        if done.returncode != 0:
            skip_without_index(done.stderr)
        assert done.returncode == 0, done.stderr
    assert not (opt / "longpole" / "bin" / "pip").exists()
    data, home = open_path / "data", open_path / "home"
    for path in (data, home):
        path.mkdir()
        path.chmod(0o777)
    words = json.loads(find_all("Dockerfile.agent", "CMD")[0])
    command = [str(opt / "longpole" / "bin" / "longpole"), words[0], f"--data-dir={data}",
               "--otlp-http-port=0", "--otlp-grpc-port=0", f"--ports-file={data / 'ports'}",
               "--server=http://127.0.0.1:9", "--no-nvml"]  # fmt: skip
    process = run_as(user, command, home, {**clean_environment(home), "TMPDIR": str(home)})
    try:
        wait_until(lambda: (data / "ports").exists() or process.poll() is not None)
        assert process.poll() is None, (home / "log").read_text()
        process.terminate()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
    # Its root file system may be read-only: it wrote where its data goes, and nowhere else.
    assert [path.name for path in home.iterdir()] == ["log"]
    assert not list((opt / "longpole").rglob("*.log"))


def list_services() -> Iterator[tuple[str, Any]]:
    yield from yaml.safe_load(COMPOSE.read_text("utf-8"))["services"].items()


def test_the_compose_file_is_one() -> None:
    program = Path(sys.executable).with_name("check-jsonschema")
    done = subprocess.run(
        [program, "--builtin-schema", "vendor.compose-spec", COMPOSE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_compose_services_take_their_arguments(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    for name, service in list_services():
        dockerfile = service["build"]["dockerfile"]
        assert (COMPOSE.parent / service["build"]["context"] / dockerfile).resolve().is_file()
        assert service["environment"]["LONGPOLE_TOKEN_FILE"] == "/run/secrets/token"
        assert service["read_only"] is True
        program, *words = service["command"]
        assert program == name
        environment = {"LONGPOLE_TOKEN_FILE": str(token)}
        if program == "agent":
            agent = parse_config(words, environment)
            known = {agent.otlp_http_port, agent.otlp_grpc_port}
            assert agent.server == "http://server:8470"
        else:
            known = {read_config(Config, program, words, environment).port}
        published = {int(port.rpartition(":")[2]) for port in service["ports"]}
        assert published == known
        # On this machine alone.
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_the_agent_in_a_container_says_the_name_of_its_machine() -> None:
    """Shells do not export HOSTNAME: as a variable of the file it was never the machine's."""
    agent = dict(list_services())["agent"]
    assert agent["uts"] == "host"
    assert "LONGPOLE_HOST_NAME" not in agent["environment"]


def test_the_page_says_what_the_compose_file_says() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    head = COMPOSE.read_text("utf-8").partition("name:")[0]
    for command in ("chmod 0444 deploy/compose/secrets/token", "up --build server"):
        assert command in page
        assert command in head


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_start_commands(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text("utf-8")
    (start,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    program, command, *words = start.split()
    assert program == "/opt/longpole/bin/longpole"
    assert unit.stem == f"longpole-{command}"
    if command == "agent":
        data_dir = str(parse_config(words, {"LONGPOLE_TOKEN": "a"}).data_dir)
    else:
        data_dir = str(read_config(Config, command, words, {"LONGPOLE_TOKEN": "a"}).data_dir)
    (state,) = re.findall(r"^StateDirectory=(.*)$", text, re.MULTILINE)
    assert data_dir == f"/var/lib/{state}"
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not on this machine")
    copy = tmp_path / unit.name
    copy.write_text(text.replace(program, "/bin/true"))
    done = subprocess.run(
        [analyze, "verify", "--man=no", copy], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
