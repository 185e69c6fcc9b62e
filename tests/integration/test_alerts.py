"""A real trainer breaks, the real server is killed, and Slack hears of it in the end."""

import json
import time
from pathlib import Path

import pytest

from longpole.conventions.attributes import ITERATION
from support.agent_waiting import wait_until
from support.fake_slack import SECRET_PATH, running_slack
from support.otlp_builders import T0_NS, gauge, loop, metrics, process, stage, traces
from support.server_process import ServerProcess, StartServer, run_longpole

pytestmark = pytest.mark.integration

RUN_ID = "team/breaks"


def send_step(server: ServerProcess, now_s: float, step: int, loss: float) -> None:
    start_s = now_s + 10.0 * step
    sender = process(RUN_ID)
    spans = [loop(step, start_s, start_s + 10.0), stage("gen", step, start_s, start_s + 6.0)]
    assert server.send("traces", traces((sender, spans))).status_code == 200
    points = [gauge("actor/pg_loss", [(start_s + 10.0, loss, {ITERATION: step})])]
    assert server.send("metrics", metrics((sender, points))).status_code == 200


def test_a_loss_that_is_no_number_reaches_slack_through_kills(
    tmp_path: Path, start_server: StartServer
):
    now_s = (time.time_ns() - T0_NS) / 1e9 - 60.0
    with running_slack() as slack:
        environment = {
            "LONGPOLE_SLACK_WEBHOOK_URL": slack.webhook_url,
            "LONGPOLE_ALERT_GROUP_INTERVAL_S": "1",
        }
        slack.default = "500"
        server = start_server(tmp_path, "--no-agent", environment=environment)
        for step in (1, 2, 3):
            send_step(server, now_s, step, float("nan") if step == 3 else 0.5)
        server.wait_for("/alerts?state=firing", lambda page: len(page["alerts"]) == 1)
        wait_until(lambda: slack.num_requests > 0)
        (channel,) = server.wait_for(
            "/channels", lambda page: page["channels"][0]["last_error"] is not None
        )["channels"]
        assert channel["last_error"] == "Slack answered 500: rollup_error"
        metrics_text = server.client.get("/metrics").text
        assert "longpole_alerts_firing 1.0" in metrics_text
        server.kill()
        slack.default = "ok"
        server = start_server(tmp_path, "--no-agent", environment=environment)
        wait_until(lambda: len(slack.taken) == 1)
        assert slack.titles() == [f"{RUN_ID}: Loss is not a number"]
        # The port that the system chose, and not the 0 that asked for one.
        assert f"{server.url}/run?" in json.dumps(slack.taken)
        (alert,) = server.get("/alerts?state=firing")["alerts"]
        assert alert["rule"] == "loss.nan"
        replayed = run_longpole("alerts", "replay", RUN_ID, "--server", server.url)
        assert "step 3 [critical] loss.nan: " in replayed.stdout, replayed.stderr
        tested = run_longpole("alerts", "test", "--server", server.url)
        assert tested.stdout == "slack (slack_webhook): took it\n", tested.stderr
        send_step(server, now_s, 4, 0.4)
        wait_until(lambda: "over: Loss is not a number" in slack.titles()[-1])
        assert server.get("/runs")["runs"][0]["open_alerts"] == 0
        assert server.interrupt() == 0, server.log
        assert SECRET_PATH not in server.log
        assert slack.problems == []
