# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from dataclasses import replace

import pytest

from longpole_dashboards.pages.cluster_panels import HEAT_PANELS, MAP_FIELDS, PANELS
from longpole_dashboards.pages.cluster_reading import Gpu, find_condition
from longpole_dashboards.pages.cluster_tables import MAX_GPU_ROWS, gpu_row, node_row
from longpole_dashboards.theme import ThemeName
from longpole_server.model.cluster import GpuMinute, GpuState, NodeNow
from support.dashboard_components import words
from support.dashboard_fake_service import FakeService
from support.dashboard_rendering import NOW_NS, make_view, render


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("field", [name for name, _ in MAP_FIELDS])
def test_the_map_of_every_field(field: str, theme: ThemeName) -> None:
    shown = render(PANELS, FakeService(NOW_NS), make_view({"map": field}, theme))
    assert shown["cluster-map.figure"].data
    assert "throttled" in words(shown["cluster-map-legend.children"])


def test_what_is_the_matter_comes_first() -> None:
    shown = render(PANELS, FakeService(NOW_NS), make_view({}))
    nodes = shown["cluster-nodes.rowData"]
    assert nodes[0]["id"] == "node-e1"
    assert [row["trouble"] for row in nodes[:2]] == ["silent", "1 throttled"]
    assert nodes[-1]["trouble"] == ""
    gpus = shown["cluster-gpus.rowData"]
    assert gpus[0]["condition"] == "silent"
    assert gpus[8]["throttled"] == "hardware thermal"
    assert gpus[-1]["condition"] == "free"
    stats = words(shown["cluster-stats.children"])
    assert "7 nodes" in stats
    assert "node-e1" in stats


def test_what_a_silent_gpu_said_last_is_no_news() -> None:
    shown = render(PANELS, FakeService(NOW_NS), make_view({}))
    num_silent = sum(row["condition"] == "silent" for row in shown["cluster-gpus.rowData"])
    num_all = len(shown["cluster-gpus.rowData"])
    stats = words(shown["cluster-stats.children"])
    assert 0 < num_silent < num_all
    assert f"of {num_all - num_silent} of {num_all} GPUs" in stats


def test_one_node_is_shown_by_itself() -> None:
    shown = render(PANELS, FakeService(NOW_NS), make_view({"node": "node-b1"}))
    assert {row["host"] for row in shown["cluster-gpus.rowData"]} == {"node-b1"}
    assert "of node-b1" in " ".join(words(shown["cluster-gpus-aside.children"]).split())
    unknown = render(PANELS, FakeService(NOW_NS), make_view({"node": "nowhere"}))
    assert len(unknown["cluster-gpus.rowData"]) == 56


def test_a_large_cluster_is_cut_and_says_so() -> None:
    service = FakeService(NOW_NS, spare_nodes=123)
    shown = render(PANELS, service, make_view({}))
    assert len(shown["cluster-gpus.rowData"]) == MAX_GPU_ROWS
    assert "256 of 1024" in words(shown["cluster-gpus-aside.children"])
    heat = render(HEAT_PANELS, service, make_view({}))
    assert "mean of a node" in heat["cluster-heat-aside.children"]
    assert len(heat["cluster-heat.figure"].data[0].y) == 128


def test_the_last_minutes_as_chosen() -> None:
    view = make_view({"span": "60", "field": "power_watts"})
    figure = render(HEAT_PANELS, FakeService(NOW_NS), view)["cluster-heat.figure"]
    low, high = figure.layout.xaxis.range
    assert (high - low).total_seconds() == 3600


def test_a_time_that_was_chosen_on_a_chart_is_what_is_read() -> None:
    end_ms = NOW_NS // 10**6
    view = make_view({"time": f"{end_ms - 120_000}-{end_ms - 60_000}", "span": "60"})
    figure = render(HEAT_PANELS, FakeService(NOW_NS), view)["cluster-heat.figure"]
    low, high = figure.layout.xaxis.range
    assert (high - low).total_seconds() == 60
    # Once the address names none any more, none is kept.
    assert figure.layout.meta["zoom"] == "address"
    too_long = make_view({"time": f"{end_ms - 30 * 86_400_000}-{end_ms}", "span": "60"})
    figure = render(HEAT_PANELS, FakeService(NOW_NS), too_long)["cluster-heat.figure"]
    low, high = figure.layout.xaxis.range
    assert (high - low).total_seconds() == 3600


def test_an_empty_cluster_names_its_source() -> None:
    shown = render(PANELS, FakeService(NOW_NS, specs=()), make_view({}))
    assert "agent" in words(shown["cluster-nodes-absent.children"])
    assert shown["cluster-stats.children"] == []
    assert shown["cluster-gpus-table.style"]["display"] == "none"


def test_the_store_is_shown_table_by_table() -> None:
    shown = render(HEAT_PANELS, FakeService(NOW_NS), make_view({}))
    table = " ".join(words(shown["cluster-storage.children"]).split())
    assert table.startswith("Table On disk Rows Bytes a row From To Kept gpu_samples")
    assert "14 days" in table
    assert "steps" in table
    assert "for ever" in table
    assert "alert_events" not in table
    assert "in /var/lib/longpole/store, 600" in shown["cluster-storage-aside.children"]
    empty = render(HEAT_PANELS, FakeService(NOW_NS, specs=()), make_view({}))
    assert "The store is empty" in words(empty["cluster-storage.children"])


def make_state(minute: GpuMinute | None, *, is_held: bool = True) -> GpuState:
    now = FakeService(NOW_NS).list_gpus()[0]
    return GpuState(now if is_held else replace(now, run_id=None), minute)


@pytest.mark.parametrize(
    ("state", "silent", "condition"),
    [
        (make_state(GpuMinute("h", "g", 60, 0.9, 0.0, 0)), set[str](), "working"),
        (make_state(GpuMinute("h", "g", 60, 0.01, 0.0, 0)), set[str](), "idle"),
        (make_state(GpuMinute("h", "g", 60, None, None, 0)), set[str](), "working"),
        (make_state(GpuMinute("h", "g", 60, 0.01, 0.0, 0), is_held=False), set[str](), "free"),
        (make_state(GpuMinute("h", "g", 60, 0.9, 0.1, 8)), set[str](), "throttled"),
        (make_state(GpuMinute("h", "g", 60, 0.9, 0.0, 0)), {"node-a1"}, "silent"),
        (make_state(None), set[str](), "silent"),
    ],
)
def test_conditions(state: GpuState, silent: set[str], condition: str) -> None:
    assert find_condition(state, silent) == condition


def test_an_agent_that_falls_behind_and_a_wrong_clock_want_a_look() -> None:
    fine = NodeNow("n", NOW_NS, spool_used_ratio=0.02, agent_dropped_total=0, clock_offset_s=-1.0)
    row = node_row(fine, [], {}, NOW_NS, None)
    assert (row["trouble"], row["spool_text"]) == ("", "2 %")
    ill = replace(fine, spool_used_ratio=0.9, agent_dropped_total=1203, clock_offset_s=-7.2)
    row = node_row(ill, [], {}, NOW_NS, None)
    assert row["trouble"] == "clock -7 s, spool fills, 1,203 dropped"
    assert node_row(NodeNow("n", NOW_NS), [], {}, NOW_NS, None)["spool_text"] == "–"


@pytest.mark.parametrize(
    ("xid", "errors", "said"),
    [(79, 2, "XID 79, 2 ECC"), (None, 0, "none"), (None, None, "–"), (48, None, "XID 48")],
)
def test_errors_of_a_gpu_are_named_and_missing_is_not_none(
    xid: int | None, errors: int | None, said: str
) -> None:
    state = make_state(GpuMinute("h", "g", 60, 0.9, 0.0, 0, errors, xid))
    assert gpu_row(Gpu(state, "working"), {})["faults"] == said


def test_nodes_and_gpus_are_searched() -> None:
    found = render(PANELS, FakeService(NOW_NS), make_view({"q": "node-b1 throttled"}))
    assert [row["id"] for row in found["cluster-nodes.rowData"]] == ["node-b1"]
    assert [row["name"] for row in found["cluster-gpus.rowData"]] == ["node-b1 · GPU 3"]
    nothing = render(PANELS, FakeService(NOW_NS), make_view({"q": "no such node"}))
    assert "No node matches" in words(nothing["cluster-nodes-absent.children"])
    assert "No GPU matches the search." in nothing["cluster-gpus-aside.children"]
