"""Snippets of the pages on Ray and GPUs: what they set exists, and what they show parses."""

import re
from pathlib import Path

import pytest
import yaml

from longpole_agent.config import parse_config

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("ray.md", "gpus.md")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# An agent's command up to where the shell takes over.
_COMMAND = re.compile(r"longpole agent((?: +--[^\s`)]+(?: +(?!--|>|&)[^\s`)]+)?)+)")


def blocks(page: str, language: str) -> list[str]:
    return [
        text for kind, text in _BLOCK.findall((DOCS / page).read_text("utf-8")) if kind == language
    ]


def commands() -> list[str]:
    return [found for page in PAGES for found in _COMMAND.findall((DOCS / page).read_text("utf-8"))]


def test_there_are_commands() -> None:
    assert len(commands()) >= 4


@pytest.mark.parametrize("arguments", commands())
def test_each_command_of_an_agent_is_understood(arguments: str) -> None:
    parse_config([each.strip("\"'") for each in arguments.split()], {})


@pytest.mark.parametrize("flag", re.findall(r"`(--[a-z-]+)`", (DOCS / "ray.md").read_text("utf-8")))
def test_each_flag_that_is_named_exists(flag: str) -> None:
    parse_config([flag], {})


def test_the_launcher_starts_the_agent_before_ray_on_every_node() -> None:
    launcher = yaml.safe_load(blocks("ray.md", "yaml")[0])
    for name in ("head_start_ray_commands", "worker_start_ray_commands"):
        lines = launcher[name]
        assert "longpole agent" in lines[0]
        assert lines[-1].startswith("ray start")


def test_the_container_beside_a_worker_is_understood_by_the_agent() -> None:
    spec = yaml.safe_load(blocks("ray.md", "yaml")[1])["template"]["spec"]
    assert spec["shareProcessNamespace"] is True
    agent = next(each for each in spec["containers"] if each["name"] == "longpole-agent")
    command, *arguments = agent["args"]
    assert command == "agent"
    config = parse_config(arguments, {each["name"]: "x" for each in agent["env"]})
    assert [(target.job, target.address) for target in config.scrape_targets] == [
        ("ray", "127.0.0.1:8080")
    ]
    assert config.pod_resources_socket is None


def test_runtime_env_holds_variables_that_are_read() -> None:
    variables = yaml.safe_load(blocks("ray.md", "yaml")[2])["env_vars"]
    sources = "".join(
        path.read_text("utf-8") for path in (DOCS.parent / "agent" / "longpole").rglob("*.py")
    )
    told = (DOCS / "frameworks" / "verl.md").read_text("utf-8")
    assert variables.keys() == {"LONGPOLE_ENDPOINT", "RL_INSIGHT_SERVER_URL"}
    assert "LONGPOLE_ENDPOINT" in sources
    assert "RL_INSIGHT_SERVER_URL" in told
