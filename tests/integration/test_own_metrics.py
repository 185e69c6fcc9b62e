"""The alerts on Longpole itself name figures that the programs really give."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from longpole_server.own_metrics import collect_follower_metrics
from longpole_server.service import ChangeFeed
from longpole_server.service.following import Follower
from longpole_server.service.revisions import Revisions
from support.server_process import StartServer

pytestmark = pytest.mark.integration

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "longpole.rules.yml"


def test_every_figure_of_the_rules_exists(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(tmp_path)
    page = server.client.get("/metrics").text
    server_names = set(re.findall(r"^# TYPE (\w+) ", page, re.MULTILINE))
    text = RULES.read_text("utf-8")
    named = set(re.findall(r"\b(longpole_\w+)\b", text))
    of_agents = {one for one in named if one.startswith("longpole_agent_")}
    of_webs = {one for one in named if one.startswith("longpole_writer_")}
    assert named - of_agents - of_webs <= server_names
    assert of_webs <= {metric.name for metric in collect_follower_metrics(make_follower())}
    source = Path(__file__).parents[2] / "agent" / "longpole_agent" / "own_metrics.py"
    for one in of_agents:
        stem = one.removeprefix("longpole_agent_").removesuffix("_total")
        assert stem in source.read_text("utf-8")
    assert server.interrupt() == 0


def test_prometheus_takes_the_rules() -> None:
    for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"]:
        for rule in group["rules"]:
            assert set(rule["annotations"]) == {"summary", "description"}
            assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on this machine (Debian: prometheus)")
    done = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def make_follower() -> Follower:
    nobody: Any = None
    return Follower(nobody, ChangeFeed(), Revisions(), tuple[()])


PAIR = """
rule_files: [{rules}]
tests:
  - interval: 1m
    input_series:
      - series: up{{job="longpole-server", pod="server-0", namespace="a"}}
        values: "{first}"
      - series: up{{job="longpole-server", pod="server-1", namespace="a"}}
        values: "0x20"
    alert_rule_test:
      - eval_time: 10m
        alertname: LongpoleServerDown
        exp_alerts: [{alerts}]
"""
DOWN = """{exp_labels: {severity: critical, namespace: a}, exp_annotations: {
  summary: No Longpole server answers.,
  description: Nobody sees the runs. Agents keep what comes in their spools
    and deliver it later.}}"""


@pytest.mark.parametrize(("first", "alerts"), [("1x20", ""), ("0x20", DOWN)], ids=["up", "down"])
def test_a_server_that_stands_by_is_not_told_of_as_down(
    tmp_path: Path, first: str, alerts: str
) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on this machine (Debian: prometheus)")
    file = tmp_path / "pair.yml"
    file.write_text(PAIR.format(rules=RULES, first=first, alerts=alerts))
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
