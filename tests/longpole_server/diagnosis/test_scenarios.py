"""Runs every scenario in `tests/scenarios` on several seeds."""

from pathlib import Path

import pytest

from longpole_server.diagnosis import diagnosis_document
from support.scenarios import SCENARIOS, load, play

PATHS = sorted(SCENARIOS.glob("*.yaml"))


def test_there_are_scenarios():
    assert PATHS


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_scenario(path: Path, seed: int):
    scenario = load(path)
    expect = scenario["expect"]
    diagnosis = play(scenario, seed)
    assert diagnosis.verdict == expect["verdict"], diagnosis.summary
    assert diagnosis.cause == expect.get("cause")
    if "confidence" in expect:
        assert diagnosis.confidence == expect["confidence"]
    codes = {finding.code for finding in diagnosis.findings}
    assert codes >= set(expect.get("findings", ()))
    assert not codes & set(expect.get("no_findings", ()))
    notes = {note.code for note in diagnosis.data_quality}
    assert notes >= set(expect.get("notes", ()))
    assert not notes & set(expect.get("no_notes", ()))
    if "next_key" in expect:
        assert expect["next_key"] in {key for look in diagnosis.next for key in look.keys}
    for stage, share in expect.get("shares", {}).items():
        assert diagnosis.shares[stage] == pytest.approx(share, abs=0.02)
    assert sum(diagnosis.shares.values()) == pytest.approx(1.0, abs=1e-6)
    assert diagnosis_document(diagnosis)["schema"] == "longpole.diagnosis/1"
