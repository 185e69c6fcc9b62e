"""`longpole diagnose A --against B`: two logs in, what changed out."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from longpole_server.cli import diagnose
from longpole_sim import SCENARIOS, Cluster, make_run, plan_run
from longpole_sim.library import LIBRARY
from longpole_sim.verl_log import write_jsonl_log

DATA = Path(__file__).parents[2] / "data"
SLOW, EVEN = DATA / "verl_console_long_tail.log", DATA / "verl_file_balanced.jsonl"


def compare(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert diagnose.main([*map(str, arguments), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "longpole.comparison/1"
    return document


def test_parts_add_up_to_the_whole(capsys: pytest.CaptureFixture[str]):
    document = compare(capsys, SLOW, "--against", EVEN)
    assert document["window"]["name"] == SLOW.name
    assert document["with_window"]["name"] == EVEN.name
    total = document["change"]["log_change"]
    known = [part["log_change"] for part in document["decomposition"]]
    assert math.fsum(known) == pytest.approx(total, abs=1e-9)
    assert document["change"]["factor"] == pytest.approx(0.47, abs=0.01)
    codes = {finding["code"] for finding in document["findings"]}
    assert codes == {"regression.gen", "regression.update_actor"}
    back = compare(capsys, EVEN, "--against", SLOW)
    assert back["change"]["log_change"] == pytest.approx(-total)


def test_people_read_factors_findings_and_settings(capsys: pytest.CaptureFixture[str]):
    assert diagnose.main([str(SLOW), "--against", str(EVEN)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "verl_console_long_tail.log is 0.471 times as fast as verl_file_balanced"
    )
    assert "  gen                          x 0.448  30.93 s to 149.7 s\n" in text
    assert "  all together                 x 0.471\n" in text
    assert "regression.gen: Gen takes 150 s a step; usual for responses as long were" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_log_against_itself_has_not_changed(capsys: pytest.CaptureFixture[str]):
    document = compare(capsys, EVEN, "--against", EVEN)
    assert document["change"]["log_change"] == pytest.approx(0.0, abs=1e-12)
    assert (document["findings"], document["config"]) == ([], [])
    assert diagnose.main([str(EVEN), "--against", str(EVEN)]) == 0
    assert "(A) is as fast as" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "code"),
    [("token_shape", "shape.tokens"), ("regression_sync", "regression.update_weights")],
)
def test_what_a_simulated_run_became(
    name: str, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    scenario = LIBRARY[name]
    assert scenario.change is not None
    run = make_run(scenario, 5, cluster=Cluster(nodes=1, gpus_per_node=8))
    plans = list(plan_run(run, scenario.steps))
    write_jsonl_log(tmp_path / "before.jsonl", run, plans[: scenario.change.step - 1])
    write_jsonl_log(tmp_path / "after.jsonl", run, plans[scenario.change.step - 1 :])
    document = compare(capsys, tmp_path / "after.jsonl", "--against", tmp_path / "before.jsonl")
    codes = {finding["code"] for finding in document["findings"]}
    assert code in codes
    assert not codes & set(scenario.no_findings)


def test_other_numbers_of_gpus_are_said_and_stages_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    paths: list[Path] = []
    for gpus in (4, 8):
        run = make_run(SCENARIOS["balanced"], 5, cluster=Cluster(nodes=1, gpus_per_node=gpus))
        paths.append(tmp_path / f"{gpus}.jsonl")
        write_jsonl_log(paths[-1], run, plan_run(run, 8))
    document = compare(capsys, paths[0], "--against", paths[1])
    assert document["findings"] == []
    assert "on other numbers of GPUs (8 and 4)" in document["remarks"][-1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([EVEN, "--against", "missing.log"], "missing.log: no such file"),
        ([EVEN, "--against", DATA / "logs"], "logs"),
        (["-", "--against", "-"], "Standard input can be read once"),
        ([EVEN, "--against", SLOW, "--threshold", "no.such=1"], "There is no threshold"),
        (["a", "--against", "b", "--against", "c", "--server", "http://127.0.0.1:1"], "one run id"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    arguments: list[object], words: str, capsys: pytest.CaptureFixture[str]
):
    assert diagnose.main([*map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_server_that_is_not_there_is_a_failure(capsys: pytest.CaptureFixture[str]):
    arguments = ["a", "--against", "b", "--server", "http://127.0.0.1:1"]
    assert diagnose.main(arguments) == 1
    assert capsys.readouterr().err.startswith("longpole diagnose: ")
