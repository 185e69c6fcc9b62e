"""The framework pages say what the tables say, and the tables what logs hold."""

from pathlib import Path

import pytest

from longpole.conventions import metrics
from longpole.conventions.metrics import read_metric
from longpole_server.importers import LogSource, import_facts
from longpole_server.importers.catalogue import FRAMEWORKS, Framework
from longpole_server.importers.formats import LINE_FORMATS
from longpole_server.importers.frameworks_page import (
    filled_metrics,
    filled_stages,
    missing_reasons,
    render_page,
)

DOCS = Path(__file__).parents[2] / "docs"
LOGS = Path(__file__).parents[1] / "data" / "logs"


def test_the_page_is_made_from_the_tables() -> None:
    # `python -m longpole_server.importers.frameworks_page > docs/frameworks.md`
    assert (DOCS / "frameworks.md").read_text("utf-8") == render_page()


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
def test_each_framework_has_a_page_of_three_parts(framework: Framework) -> None:
    page = (DOCS / "frameworks" / f"{framework.name}.md").read_text("utf-8")
    titles = [line for line in page.splitlines() if line.startswith("#")]
    assert titles == [
        f"# {framework.title}",
        "## What to set",
        "## What appears",
        "## What is missing, and why",
    ]


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
def test_no_reason_is_given_for_what_is_there(framework: Framework) -> None:
    missing = {name for names in missing_reasons(framework).values() for name in names}
    assert framework.missing.keys() <= missing


def test_every_format_of_a_framework_is_in_the_catalogue() -> None:
    named = {framework.name for framework in FRAMEWORKS}
    assert {known.system for known in LINE_FORMATS if known.system is not None} <= named


@pytest.mark.parametrize(
    ("log", "name"),
    [
        ("slime_console.log", "slime"),
        ("openrlhf_console.log", "openrlhf"),
        ("nemo_rl_console.log", "nemo_rl"),
        ("areal_console.log", "areal"),
        ("areal_trace.jsonl", "areal"),
        ("trl_console.log", "trl"),
        ("skyrl_console.log", "skyrl"),
        ("roll_console.log", "roll"),
        ("roll_agentic_console.log", "roll"),
        ("prime_rl_trainer.log", "prime_rl"),
        ("prime_rl_trainer.jsonl", "prime_rl"),
    ],
)
def test_what_a_log_fills_is_what_the_page_says(log: str, name: str) -> None:
    framework = next(known for known in FRAMEWORKS if known.name == name)
    stages = {stage for source in framework.sources for stage in filled_stages(source)}
    kinds = {kind for source in framework.sources for kind in filled_metrics(source)}
    for facts in import_facts(LogSource.of_file(LOGS / log), "x").steps:
        found = {stage.stage for stage in facts.step.stages}
        # In asynchronous runs the generation is what the trainer waits for.
        assert found - {"trainer_wait"} <= stages
        assert {
            kind for kind in metrics.METRICS if read_metric(kind, facts.scalars) is not None
        } <= kinds
