import re
from html.parser import HTMLParser

import pytest

from longpole_dashboards.formats import Zone
from longpole_dashboards.report.document import render_report
from longpole_server.errors import NotFoundError
from support.dashboard_fake_service import ASYNC_RUN, BARE_RUN, HANGING_RUN, LIVE_RUN, FakeService
from support.dashboard_workload import RunSpec

NOW_NS = 1_760_000_000 * 10**9
OPEN_TAGS = {"meta", "img"}


class Checker(HTMLParser):
    """Notes tags that are not closed, and what would ask somebody else."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in OPEN_TAGS:
            self.open.append(tag)
        self.foreign += [
            value or ""
            for name, value in attrs
            if name in ("src", "href") and not (value or "").startswith("data:")
        ]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        return None

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def render(service: FakeService, run_id: str) -> str:
    return render_report(service, run_id, Zone(), NOW_NS)


@pytest.mark.parametrize("run_id", [LIVE_RUN, HANGING_RUN, ASYNC_RUN, BARE_RUN])
def test_it_is_whole_and_asks_nobody(run_id: str) -> None:
    text = render(FakeService(NOW_NS), run_id)
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert checker.foreign == []
    assert "<script" not in text
    assert "url(" not in text


def test_it_says_what_the_run_waits_for_and_what_changed() -> None:
    text = render(FakeService(NOW_NS), LIVE_RUN)
    order = [
        text.index(words)
        for words in (
            "The rollout waits for a few long samples",
            "Evidence",
            "What to look at next",
            "Stage shares",
            "data:image/png;base64,",
            "What changed",
            "GPU 3 on node-a1 was slowed down",
            "Slowest steps",
            "rollout.n",
        )
    ]
    assert order == sorted(order)


def test_what_is_missing_says_who_would_tell_it() -> None:
    assert "would come from a Longpole agent" in render(FakeService(NOW_NS), BARE_RUN)


def test_names_are_text() -> None:
    evil = RunSpec("<b>", "<script>alert(1)</script>", 1, NOW_NS - 10**12, config={"<i>": "<u>"})
    text = render(FakeService(NOW_NS, (evil,)), "<b>")
    assert "<script>" not in text
    assert "&lt;u&gt;" in text


def test_a_run_that_has_just_begun_has_a_report() -> None:
    spec = RunSpec("new", "new", 1, NOW_NS - 10**9)
    assert re.search(r"<h1>new</h1>", render(FakeService(NOW_NS, (spec,)), "new"))


def test_there_is_no_report_of_no_run() -> None:
    with pytest.raises(NotFoundError):
        render(FakeService(NOW_NS), "nobody")


def test_it_says_who_was_slow_and_what_the_run_took_in_energy() -> None:
    text = render(FakeService(NOW_NS), LIVE_RUN)
    slow, energy = text.index("<h2>Stragglers</h2>"), text.index("<h2>Energy</h2>")
    assert text.index("<h2>GPUs</h2>") < slow < energy < text.index("<h2>What changed</h2>")
    assert re.search(r" · GPU \d</td>", text[slow:energy])
    assert "<h3>Replicas</h3>" in text[slow:energy]
    assert text[slow:energy].count(">▲ ") == 2
    assert " J a token" in text[energy:]
    assert "Wh in the whole run" in text[energy:]
    assert "<th >stage</th>" in text[energy:]


def test_a_run_without_hardware_says_which_source_would_tell() -> None:
    text = render(FakeService(NOW_NS), BARE_RUN)
    slow, energy = text.index("<h2>Stragglers</h2>"), text.index("<h2>Energy</h2>")
    assert "<table" not in text[slow:energy]
    assert "<table" not in text[energy : text.index("</section>", energy)]
