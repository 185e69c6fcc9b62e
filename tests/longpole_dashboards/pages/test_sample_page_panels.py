# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from dataclasses import replace

import pytest

from longpole_dashboards.pages.sample_page_panels import PANELS, split_sample
from longpole_dashboards.theme import ThemeName
from longpole_server.errors import NotFoundError
from longpole_server.model.trajectory import TrajectoryDetail
from support.dashboard_components import words
from support.dashboard_fake_service import LIVE_RUN, FakeService
from support.dashboard_rendering import NOW_NS, make_view, render

SAMPLE = "0020-003-2"
ADDRESS = {"run": LIVE_RUN, "id": SAMPLE}


class BareService(FakeService):
    """Its samples have neither parts nor siblings nor sums."""

    def get_trajectory(self, run_id: str, trajectory_id: str) -> TrajectoryDetail:
        sample = super().get_trajectory(run_id, trajectory_id).trajectory
        bare = replace(
            sample, generate_s=None, tool_s=None, score_s=None, queue_s=None, output_tokens=None,
            group_id=None, status=None, reward=None, step=-1, policy_version_start=None,
        )  # fmt: skip
        return TrajectoryDetail(bare, (), ())


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_whole_page(theme: ThemeName) -> None:
    shown = render(PANELS, FakeService(NOW_NS), make_view(ADDRESS, theme))
    said = words(shown["samplepage-summary.children"])
    assert "Generation takes 9" in said
    assert "of 8 in its group" in said
    assert "of 256 samples took longer" in said
    assert "replica-2" in words(shown["samplepage-facts.children"])
    facts = words(shown["samplepage-facts.children"])
    assert "prefill, decode 109 ms + " in facts
    assert "its GPUs GPU 4 ,  GPU 5" in facts
    assert "its node node-a1" in facts
    assert words(shown["samplepage-siblings.children"]).count("0020-003-") == 8
    assert shown["samplepage-absent.children"] == []


def test_what_is_not_reported_is_named_with_its_source() -> None:
    shown = render(PANELS, BareService(NOW_NS), make_view(ADDRESS))
    assert "not reported" in words(shown["samplepage-summary.children"])
    assert "step not known" in words(shown["samplepage-title.children"])
    said = words(shown["samplepage-absent.children"])
    assert "longpole.trajectory(parts=...)" in said
    assert "group_id" in said
    facts = words(shown["samplepage-facts.children"])
    assert facts.count("not reported") == 2
    assert "–" in words(shown["samplepage-facts.children"])


def test_seconds_that_no_part_covers_are_shown_as_such() -> None:
    sample = FakeService(NOW_NS).get_trajectory(LIVE_RUN, SAMPLE).trajectory
    assert [share.label for share in split_sample(sample, "#000")][-1] == "paused"
    longer = replace(sample, duration_s=sample.duration_s + 5)
    rest = split_sample(longer, "#000")[-1]
    assert (rest.label, rest.is_rest) == ("not covered", True)
    assert rest.seconds == pytest.approx(5, abs=0.01)


@pytest.mark.parametrize(
    "query", [{}, {"run": LIVE_RUN}, ADDRESS | {"id": "0020-999-1"}, ADDRESS | {"run": "no/such"}]
)
def test_an_address_without_a_sample_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(NotFoundError):
        render(PANELS, FakeService(NOW_NS), make_view(query))
