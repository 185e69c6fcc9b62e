"""Every file in `tests/scenarios/simulated`: drawn runs and what must be said of them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from longpole_server.diagnosis.findings import FINDINGS
from longpole_server.diagnosis.rules import RULES
from longpole_sim.fitting import fits
from longpole_sim.library import LIBRARY
from longpole_sim.variation import draw_example
from support.offline_judging import diagnose_example
from support.offline_variants import FULL, Recording, without

FOLDER = Path(__file__).parent / "simulated"
PATHS = sorted(FOLDER.glob("*.yaml"))


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_every_scenario_of_the_library_is_named() -> None:
    assert {read(path)["run"]["scenario"] for path in PATHS} == set(LIBRARY)


def test_every_verdict_and_every_finding_has_a_run_that_deserves_it() -> None:
    told = {code for scenario in LIBRARY.values() for code in scenario.findings}
    assert {kind.code for kind in FINDINGS} - told == {"regression.<stage>"}
    assert any(code.startswith("regression.") for code in told)
    deserved = {scenario.verdict for scenario in LIBRARY.values()}
    assert {rule.code for rule in RULES} | {"balanced"} == deserved


@pytest.mark.parametrize("seed", (0, 101))
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_run(path: Path, seed: int, request: pytest.FixtureRequest) -> None:
    asked = read(path)
    if "pending" in asked:
        request.applymarker(pytest.mark.xfail(reason=asked["pending"], strict=False))
    fixed = dict(asked["run"])
    name = fixed.pop("scenario")
    expect = asked["expect"]
    example = draw_example(name, seed, fixed)
    recording = Recording(example.run, example.plans)
    observed = without(recording.observe(asked.get("data", FULL)), *asked.get("without", ()))
    diagnosis = diagnose_example(example, observed)
    verdicts = expect["verdict"]
    assert diagnosis.verdict in ([verdicts] if isinstance(verdicts, str) else verdicts), (
        diagnosis.summary
    )
    if "cause" in expect:
        assert diagnosis.cause == expect["cause"], diagnosis.summary
    if expect.get("not_high"):
        assert diagnosis.confidence != "high", diagnosis.summary
    codes = {finding.code for finding in diagnosis.findings}
    assert set(expect.get("findings", ())) <= codes
    assert not codes & set(expect.get("no_findings", ()))
    assert [code for code in codes if not fits(code, example.run.scenario)] == []
