"""Every panel of every page, on every pretend run, in both themes."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from typing import Any

import pytest

from longpole_dashboards.addresses import Query
from longpole_dashboards.formats import Zone
from longpole_dashboards.pages.run import GROUPS as RUN_GROUPS
from longpole_dashboards.pages.run_energy import PANELS as ENERGY_PANELS
from longpole_dashboards.pages.runs import PANELS as RUNS_PANELS
from longpole_dashboards.pages.sample_panels import PANELS as SAMPLE_PANELS
from longpole_dashboards.pages.step_panels import HEAD_PANELS as STEP_HEAD_PANELS
from longpole_dashboards.pages.step_panels import PANELS as STEP_PANELS
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import View
from longpole_dashboards.theme import ThemeName
from longpole_server.errors import NotFoundError
from longpole_server.model.step import Step
from support.dashboard_components import words
from support.dashboard_fake_service import (
    ASYNC_RUN,
    BARE_RUN,
    HANGING_RUN,
    LIVE_RUN,
    FakeService,
)
from support.dashboard_rendering import NOW_NS, make_view, render

RUNS = (LIVE_RUN, HANGING_RUN, ASYNC_RUN, BARE_RUN)


def render_run(service: FakeService, view: View) -> dict[str, Any]:
    """Return what every output of the run page would hold."""
    found: dict[str, Any] = {}
    for group in RUN_GROUPS:
        found |= render(group, service, view)
    return found


def render_step(query: dict[str, str], theme: ThemeName = "dark") -> dict[str, Any]:
    """Return what every output of the step page would hold."""
    service, view = FakeService(NOW_NS), make_view(query, theme)
    return render(STEP_HEAD_PANELS, service, view) | render(STEP_PANELS, service, view)


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("run_id", RUNS)
def test_the_run_page_of_every_kind_of_run(run_id: str, theme: ThemeName) -> None:
    shown = render_run(FakeService(NOW_NS), make_view({"id": run_id}, theme))
    assert len(shown["run-tiles.children"]) == 7
    assert shown["run-shares.figure"].data


@pytest.mark.parametrize("choice", [{"unit": "percent"}, {"axis": "time"}, {"steps": "all"}])
def test_the_run_page_as_chosen(choice: dict[str, str]) -> None:
    shown = render_run(FakeService(NOW_NS), make_view({"id": LIVE_RUN, **choice}))
    assert shown["run-shares.figure"].data


def test_a_run_before_its_first_step_ends() -> None:
    service = FakeService(NOW_NS)
    service.advance(-3370)
    view = View(Query({"id": LIVE_RUN}), "dark", Zone(), service.now_ns())
    shown = render_run(service, view)
    assert "No verdict yet" in words(shown["run-verdict.children"])
    assert "gen" in words(shown["run-now.children"])


def test_the_run_page_says_what_is_missing() -> None:
    shown = render_run(FakeService(NOW_NS), make_view({"id": BARE_RUN}))
    assert "Longpole agent on the GPU nodes" in words(shown["run-gpus-absent.children"])
    assert shown["run-gpus.style"] == {"display": "none"}
    assert "times estimated" in words(shown["run-title.children"])
    unknown = render_run(FakeService(NOW_NS), make_view({"id": ASYNC_RUN}))
    assert "needs model and GPU" in words(unknown["run-tiles.children"])


def test_resumes_are_marked() -> None:
    shown = render_run(FakeService(NOW_NS), make_view({"id": LIVE_RUN}))
    assert "attempt 2" in words(shown["run-title.children"])


def test_gpus_that_report_no_activity_show_utilisation_and_say_so() -> None:
    shown = render_run(
        FakeService(NOW_NS), make_view({"id": LIVE_RUN, "field": "memory_used_bytes"})
    )
    assert "utilisation is shown" in words(shown["run-gpus-absent.children"])


def test_a_zoomed_time_is_what_the_gpus_show() -> None:
    start_ms = NOW_NS // 10**6 - 300_000
    view = make_view({"id": LIVE_RUN, "time": f"{start_ms}-{start_ms + 60_000}"})
    low, high = render_run(FakeService(NOW_NS), view)["run-gpus.figure"].layout.xaxis.range
    assert (high - low).total_seconds() == 60


@pytest.mark.parametrize("axis", ["step", "time"])
def test_a_zoom_that_the_address_gave_up_is_kept_by_no_chart(axis: str) -> None:
    service, view = FakeService(NOW_NS), make_view({"id": LIVE_RUN, "axis": axis})
    shown = render_run(service, view) | render(ENERGY_PANELS, service, view)
    figures = {name: value for name, value in shown.items() if name.endswith(".figure")}
    assert len(figures) == 7
    metas = {name: figure.layout.meta for name, figure in figures.items()}
    assert [name for name, meta in metas.items() if meta["zoom"] != "address"] == []


def test_nothing_is_rendered_anew_while_nothing_changes_but_the_present() -> None:
    service = FakeService(NOW_NS)
    reader = Reader(service)

    def keys() -> list[object]:
        view = make_view({"id": LIVE_RUN})
        readings = [(group, group.read(reader, view)) for group in RUN_GROUPS]
        return [panel.key(reading) for group, reading in readings for panel in group.panels]

    before = keys()
    service.advance(0.001)
    assert keys() == before


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("run_id", RUNS)
def test_the_step_page_of_every_kind_of_run(run_id: str, theme: ThemeName) -> None:
    shown = render_step({"run": run_id, "step": "8"}, theme)
    assert "Step 8" in words(shown["step-title.children"])
    # A log says how long stages took, not when: nothing to draw on an axis of time.
    assert ("height" in shown["step-timeline.style"]) == (run_id != BARE_RUN)


def test_title_and_ledger_do_not_wait_for_samples_and_gpus() -> None:
    service = FakeService(NOW_NS)
    asked = list[int]()
    service.get_step = lambda run_id, step: asked.append(step)  # type: ignore[method-assign, assignment, return-value]
    shown = render(STEP_HEAD_PANELS, service, make_view({"run": LIVE_RUN, "step": "8"}))
    assert "against the usual" in words(shown["step-title.children"])
    assert shown["step-ledger.figure"].data
    assert asked == []


def test_the_open_step_has_a_page() -> None:
    shown = render_step({"run": LIVE_RUN, "step": "31"})
    assert "open" in words(shown["step-title.children"])


def test_samples_are_listed_slowest_first_and_the_chosen_one_is_marked() -> None:
    service = FakeService(NOW_NS)
    chosen = service.list_trajectories(LIVE_RUN, 20)[2].trajectory_id
    view = make_view({"run": LIVE_RUN, "step": "20", "sample": chosen})
    rows = render(STEP_PANELS, service, view)["step-samples.rowData"]
    durations = [row["duration"] for row in rows]
    assert durations == sorted(durations, reverse=True)
    assert [row["id"] for row in rows if row["selected"]] == [chosen]
    drawer = render(SAMPLE_PANELS, service, view)["sample-body.children"]
    assert chosen in words(drawer)
    assert "7 other samples of its group" in words(drawer)


def test_without_a_chosen_sample_the_drawer_is_empty() -> None:
    view = make_view({"run": LIVE_RUN, "step": "20"})
    assert render(SAMPLE_PANELS, FakeService(NOW_NS), view)["sample-body.children"] is None


def test_partial_rollout_says_what_it_would_have_saved() -> None:
    view = make_view({"run": LIVE_RUN, "step": "20"})
    shown = words(render(STEP_PANELS, FakeService(NOW_NS), view)["step-partial.children"])
    assert "stop at 80 %" in shown
    assert "of the step" in shown


def test_a_step_without_samples_names_their_source() -> None:
    shown = render(STEP_PANELS, FakeService(NOW_NS), make_view({"run": BARE_RUN, "step": "5"}))
    assert "longpole.trajectory()" in words(shown["step-samples-absent.children"])
    assert shown["step-samples-table.style"] == {"display": "none"}
    assert "Stage windows: not reported" in words(shown["step-absent.children"])


def test_neighbours_end_where_the_run_does() -> None:
    shown = render_step({"run": BARE_RUN, "step": "18"})
    links = [str(part) for part in shown["step-title.children"].children[:3]]
    assert "href='/step?run=import%2Fverl-gsm8k&step=17'" in links[0]
    assert "lp-disabled" in links[2]


@pytest.mark.parametrize("query", [{}, {"id": "no/such"}])
def test_an_address_without_a_run_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(NotFoundError):
        render_run(FakeService(NOW_NS), make_view(query))


@pytest.mark.parametrize("query", [{"run": LIVE_RUN}, {"run": LIVE_RUN, "step": "9999"}])
def test_an_address_without_a_step_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(NotFoundError):
        render_step(query)


def test_runs_are_listed_live_ones_first() -> None:
    shown = render(RUNS_PANELS, FakeService(NOW_NS), make_view({}))
    rows = shown["runs-grid.rowData"]
    states = [row["state"] for row in rows]
    assert states.index("finished") > max(states.index("live"), states.index("stalled"))
    live = next(row for row in rows if row["id"] == LIVE_RUN)
    assert live["href"] == "/run?id=math%2Fgrpo-qwen3-8b"
    assert live["spark"].startswith("data:image/svg+xml,")
    assert live["open"] == "31: gen"
    unknown = next(row for row in rows if row["id"] == ASYNC_RUN)
    assert (unknown["mfu"], unknown["mfu_text"]) == (None, "–")


def test_without_runs_the_page_says_how_to_connect_one() -> None:
    shown = render(RUNS_PANELS, FakeService(NOW_NS, specs=()), make_view({}))
    said = words(shown["runs-empty.children"])
    assert "longpole.init" in said
    assert "longpole demo" in said
    assert shown["runs-table.style"] == {"display": "none"}


class CountingService(FakeService):
    """Counts how often steps are asked for."""

    asked = 0

    def list_steps(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> list[Step]:
        self.asked += 1
        return list(super().list_steps(run_id, first, last))


def test_open_tabs_share_what_was_read() -> None:
    service = CountingService(NOW_NS)
    reader = Reader(service)
    for _ in range(5):
        reading = RUN_GROUPS[0].read(reader, make_view({"id": LIVE_RUN}))
        assert reading.steps
    assert service.asked == 1
