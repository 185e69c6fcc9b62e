"""`longpole diagnose`: a log in, a verdict out; anything else is one line and a status."""

import json
from pathlib import Path

import pytest

from longpole_server.cli import diagnose

DATA = Path(__file__).parents[2] / "data"

VERDICTS = {
    "verl_console_long_tail.log": "rollout.long_tail",
    "verl_console_update_inefficient.log": "update.inefficient",
    "verl_file_balanced.jsonl": "balanced",
    "verl_file_sync_weights.jsonl": "sync.weights",
    # Three tiny steps on a CPU: no family but what no stage covers is known to dominate.
    "verl_0.9.1_real.jsonl": "rollout.unexplained",
    "verl_0.9.1_real_console.log": "rollout.unexplained",
}


@pytest.mark.parametrize(("name", "verdict"), VERDICTS.items())
def test_the_samples_get_the_verdict_of_the_specification(
    name: str, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diagnose.main([str(DATA / name), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "longpole.diagnosis/1"
    assert document["verdict"] == verdict
    assert sum(document["shares"].values()) == pytest.approx(1.0, abs=1e-6)
    assert "unattributed" in document["shares"]
    assert document["evidence"]
    assert document["next"]


def test_people_read_ledger_verdict_evidence_and_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert diagnose.main([str(DATA / "verl_console_long_tail.log")]) == 0
    text = capsys.readouterr().out
    assert "verdict  rollout.long_tail" in text
    for heading in ("where a step's", "evidence", "look at next"):
        assert heading in text
    assert "16 GPUs" in text


def test_a_torn_last_line_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (DATA / "verl_console_long_tail.log").read_text("utf-8")
    path = tmp_path / "torn.log"
    path.write_text(whole[: len(whole) - 900], encoding="utf-8")
    assert diagnose.main([str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "line.torn" in {note["code"] for note in document["data_quality"]}


def test_what_cannot_be_diagnosed_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    binary, empty, noise = tmp_path / "a.bin", tmp_path / "empty.log", tmp_path / "noise.log"
    binary.write_bytes(b"\x00\x01\x02" * 100)
    empty.touch()
    noise.write_text("step:0 - val-core/x/acc/mean@1:0.5\nnothing else\n", encoding="utf-8")
    for target in (binary, empty, noise, tmp_path, tmp_path / "absent.log"):
        assert diagnose.main([str(target)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("longpole diagnose: ")
        assert captured.err.count("\n") == 1


def test_a_server_that_does_not_answer_is_one_line_and_status_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert diagnose.main(["some/run", "--server", "http://127.0.0.1:9"]) == 1
    assert "does not answer" in capsys.readouterr().err
    assert diagnose.main(["some/run", "--server", "ftp://x"]) == 2
