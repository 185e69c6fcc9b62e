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
    judge(tmp_path, PAIR.format(rules=RULES, first=first, alerts=alerts))


def judge(folder: Path, cases: str) -> None:
    """Have Prometheus judge series by the rules, where it is on this machine."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on this machine (Debian: prometheus)")
    file = folder / "cases.yml"
    file.write_text(cases)
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)


WEBS = """
rule_files: [{rules}]
tests:
  - interval: 1m
    input_series: [{series}]
    alert_rule_test:
      - {{eval_time: 30m, alertname: LongpolePagesDown, exp_alerts: [{pages}]}}
      - {{eval_time: 30m, alertname: LongpoleWebDown, exp_alerts: [{webs}]}}
"""
SERIES = (
    '{{series: \'up{{job="longpole-web", instance="{name}", namespace="a"}}\', values: "{values}"}}'
)
PAGES_DOWN = """{{exp_labels: {{severity: critical{more}}}, exp_annotations: {{
  summary: No server that shows answers.,
  description: "Nobody sees the runs. The server that takes data goes on, judges, and tells
    channels."}}}}"""
WEB_DOWN = """{{exp_labels: {{severity: warning, job: longpole-web, instance: {name},
  namespace: a}},
  exp_annotations: {{summary: The server that shows at {name} does not answer.,
  description: "The others show. It may wait until the server that takes data has migrated the
    tables."}}}}"""


@pytest.mark.parametrize(
    ("values", "pages", "webs"),
    [
        ([], "", ""),
        (["1x40", "1x40"], "", ""),
        (["1x40", "0x40"], "", ["b"]),
        (["0x40", "0x40"], ", namespace: a", ["a", "b"]),
        (["1x5 stale"], ", job: longpole-web", []),
    ],
    ids=["none", "all", "one-down", "all-down", "gone"],
)
def test_servers_that_show_are_told_of_when_they_do_not_answer(
    tmp_path: Path, values: list[str], pages: str, webs: list[str]
) -> None:
    judge(
        tmp_path,
        WEBS.format(
            rules=RULES,
            series=", ".join(
                SERIES.format(name=name, values=one)
                for name, one in zip("ab", values, strict=False)
            ),
            pages=PAGES_DOWN.format(more=pages) if pages else "",
            webs=", ".join(WEB_DOWN.format(name=name) for name in webs),
        ),
    )
