"""Runs made up from the specification alone, by nobody who knows the rules' code.

Each label is a row of the decision table, a finding, a borderline pair or a look-alike. Many more
seeds: `benchmarks/diagnosis_elsewhere.py`.
"""

from collections.abc import Generator
from pathlib import Path

import pytest

from support.elsewhere_judging import LOG_LABELS, VIEWS, StoreJudge, compare, hear, hear_log
from support.elsewhere_logs import LOGS
from support.elsewhere_troubles import TROUBLES
from support.server_service import opened_bench

_LOGS = list(LOGS)
# Many samples of many GPUs take long to make: only where it is about them.
_GPU_LABELS = frozenset({"finding.throttled_gpu", "finding.idle_gpu", "finding.lost_gpu"})
_VIEWS = [view for view, sent in VIEWS.items() if "gpus" not in sent]
# A view and a log of its own for every label: over the labels all of them have their turn.
CASES = [
    (label, "no_engines" if label in _GPU_LABELS else _VIEWS[place % len(_VIEWS)])
    for place, label in enumerate(TROUBLES)
]
LOG_CASES = [(label, _LOGS[place % len(_LOGS)]) for place, label in enumerate(LOG_LABELS)]


@pytest.mark.parametrize(("label", "view"), CASES)
def test_the_specification_and_the_diagnosis_agree(label: str, view: str):
    assert list(compare(hear(label, 101, view), view)) == []


@pytest.mark.parametrize(("label", "log"), LOG_CASES)
def test_the_same_is_said_of_a_log(label: str, log: str, tmp_path: Path):
    heard = hear_log(label, 101, log, tmp_path)
    if heard is not None:
        assert list(compare(heard, "bare")) == []


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Generator[StoreJudge]:
    with opened_bench(tmp_path_factory.mktemp("store")) as bench:
        yield StoreJudge(bench)


def test_a_store_answers_like_memory(store: StoreJudge):
    label = "rollout.tool"
    stored, kept = store.hear(label, 7, "full"), hear(label, 7, "full")

    assert (stored.whole.verdict, stored.whole.confidence) == (
        kept.whole.verdict,
        kept.whole.confidence,
    )
    assert [finding.code for finding in stored.whole.findings] == [
        finding.code for finding in kept.whole.findings
    ]
    assert stored.whole.shares == pytest.approx(kept.whole.shares)


def test_two_samples_are_sure_of_nothing():
    """With two samples a step one is the slowest by far, whatever goes on."""
    heard = hear("tiny.two_samples", 5, "no_engines")

    assert heard.whole.verdict is not None
    assert heard.whole.confidence != "high"
