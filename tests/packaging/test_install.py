"""What `pip install longpole[extra]` brings, on each Python that is supported, and that it runs."""

from pathlib import Path

import pytest

from support.distributions import ROOT
from support.fresh_environments import FreshEnvironment

# What the SDK and the agent must never bring into a trainer's environment, or onto a GPU node.
OF_THE_SERVER = {
    "apprise", "chdb", "clickhouse-connect", "dash", "dash-ag-grid", "dash-mantine-components",
    "fastapi", "google-re2", "numpy", "orjson", "pandas", "pillow", "plotly", "pyarrow", "scipy",
    "slack-sdk", "starlette", "uvloop",
}  # fmt: skip
OF_THE_AGENT = {"grpcio", "httptools", "nvidia-ml-py", "psutil", "uvicorn"}

SDK_PROGRAM = """
import longpole
longpole.init(run_id="a/b", endpoint="http://127.0.0.1:9")
with longpole.step(1), longpole.stage("gen"):
    pass
longpole.shutdown(timeout_s=0.1)
print(longpole.__version__)
"""


def install(wheel: Path, extra: str, version: str, directory: Path) -> FreshEnvironment:
    environment = FreshEnvironment(directory / "venv", version)
    wanted = f"longpole[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    # The versions that are tested; without hashes, which cannot be given for the wheel itself.
    lock = ("--constraint", str(ROOT / "requirements.lock")) if version != "3.10" else ()
    environment.install(wanted, *lock)
    return environment


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_the_sdk_alone(wheel: Path, tmp_path: Path, version: str) -> None:
    environment = install(wheel, "", version, tmp_path)
    packages = environment.list_packages()
    assert packages & (OF_THE_SERVER | OF_THE_AGENT) == set()
    assert all(
        name.startswith("opentelemetry-")
        or name in {"longpole", "protobuf", "typing-extensions", "importlib-metadata", "zipp"}
        for name in packages
    )
    done = environment.run("python", "-W", "error", "-c", SDK_PROGRAM, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert environment.run("longpole", "version", cwd=tmp_path).stdout.startswith("longpole 0.")
    for command, extra in (("agent", "agent"), ("server", "server"), ("diagnose", "analysis")):
        done = environment.run("longpole", command, cwd=tmp_path)
        assert done.returncode == 2
        assert f"pip install 'longpole[{extra}]'" in done.stderr


@pytest.mark.parametrize("version", ["3.10", "3.13"])
def test_the_agent(wheel: Path, tmp_path: Path, version: str) -> None:
    environment = install(wheel, "agent", version, tmp_path)
    packages = environment.list_packages()
    assert packages & OF_THE_SERVER == set()
    assert packages >= OF_THE_AGENT
    for command in ("agent", "demo"):
        done = environment.run("longpole", command, "--help", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    done = environment.run("longpole", "agent", "--server", "nowhere", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("longpole agent: ")


def test_diagnosing_a_log(wheel: Path, tmp_path: Path) -> None:
    environment = install(wheel, "analysis", "3.12", tmp_path)
    packages = environment.list_packages()
    assert packages & {"fastapi", "dash", "chdb", "pyarrow", "pandas"} == set()
    log = ROOT / "tests" / "data" / "verl_console_long_tail.log"
    done = environment.run("longpole", "diagnose", str(log), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "long" in done.stdout


# Half a gigabyte of packages where no cache has them.
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("extra", "version", "command"), [("server", "3.12", "doctor"), ("all", "3.13", "up")]
)
def test_the_server_and_everything(
    wheel: Path, tmp_path: Path, extra: str, version: str, command: str
) -> None:
    environment = install(wheel, extra, version, tmp_path)
    assert "pytest" not in environment.list_packages()
    done = environment.run("longpole", command, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # Opens the store, which is most of what can be missing, and imports all that a server does.
    words = ("migrate", "--data-dir", str(tmp_path / "data"))
    done = environment.run("longpole", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "is up to date" in done.stdout
    program = "import longpole_server.cli.serving, longpole_dashboards.app"
    done = environment.run("python", "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
