"""What charts of one page do together, filters, files to keep, and a small screen."""

import re

import pytest
from playwright.sync_api import Page, expect

from longpole_dashboards.addresses import compare_address, run_address, step_address
from support.dashboard_browser import FakeServer
from support.dashboard_fake_service import ASYNC_RUN, BASELINE_RUN, LIVE_RUN

pytestmark = pytest.mark.browser

RANGE = "document.querySelector('#{}').querySelector('.js-plotly-plot')._fullLayout.xaxis.range"
LINES = """
id => [...document.querySelectorAll(`#${id} .lp-crosshair`)]
    .filter(line => line.style.display === 'block').map(line => line.getBoundingClientRect().left)
"""


def open_run(page: Page, server: FakeServer, more: str = "") -> None:
    page.goto(server.address + run_address(LIVE_RUN) + more)
    page.wait_for_selector("#run-shares .barlayer .point")
    page.wait_for_selector("#run-gpus .heatmaplayer image")
    page.wait_for_selector("#run-health .xtick text")
    page.wait_for_selector("#run-engines .heatmaplayer image")


def drag(page: Page, plot: str, start: float, end: float) -> None:
    page.locator(plot).scroll_into_view_if_needed()
    box = page.locator(f"{plot} .nsewdrag").first.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * start, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, middle, steps=8)
    page.mouse.up()


ENERGY = re.compile(r"\d [kM]?(J|Wh)")
IS_SHOWN = """(() => {
  const plot = document.querySelector('#run-gpus .js-plotly-plot');
  const [from, to] = plot._fullLayout.xaxis.range.map((at) => plot._fullLayout.xaxis.r2l(at));
  const at = plot.data.findIndex((x) => WHICH);
  return plot.calcdata[at].filter(({ b }) => b >= from && b < to).length > 2;
})()"""


def test_what_is_zoomed_on_one_chart_all_show(page: Page, server: FakeServer) -> None:
    open_run(page, server)
    drag(page, "#run-throughput", 0.3, 0.6)
    page.wait_for_url(re.compile(r"zoom=[\d.]+-[\d.]+"))
    first, last = map(float, page.url.partition("zoom=")[2].partition("&")[0].split("-"))
    for chart in ("run-shares", "run-mfu", "run-energy-steps", "run-health"):
        page.wait_for_function(
            f"Math.abs({RANGE.format(chart)}[0] - {first}) < 0.01"
            f" && Math.abs({RANGE.format(chart)}[1] - {last}) < 0.01"
        )
    steps = "document.querySelector('#run-gpus .js-plotly-plot').layout.meta.steps"
    page.wait_for_function(f"{steps}[0][0] >= {first} - 1 && {steps}.at(-1)[0] <= {last} + 1")
    same = f"{RANGE.format('run-gpus')}.join() === {RANGE.format('run-engines')}.join()"
    page.wait_for_function(same)
    pasted = page.url
    page.locator("#jump").click()
    page.wait_for_function("!location.search.includes('zoom=')")
    # The chart that was dragged too.
    for chart in ("run-throughput", "run-shares"):
        page.wait_for_function(f"{RANGE.format(chart)}[0] < 1")
    page.goto(pasted)
    page.wait_for_selector("#run-mfu .scatterlayer .trace")
    page.wait_for_function(f"Math.abs({RANGE.format('run-mfu')}[0] - {first}) < 0.01")


@pytest.mark.parametrize("chart", ["run-throughput", "run-gpus"])
def test_a_double_click_on_a_chart_goes_back_to_live(
    page: Page, server: FakeServer, chart: str
) -> None:
    open_run(page, server, "&zoom=4-9")
    page.wait_for_function(f"Math.abs({RANGE.format('run-mfu')}[0] - 4) < 0.01")
    place = page.locator(f"#{chart}")
    place.scroll_into_view_if_needed()
    box = place.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("!/zoom=|time=/.test(location.search)")
    for each in ("run-shares", "run-mfu", "run-health"):
        page.wait_for_function(f"{RANGE.format(each)}[0] <= 1 && {RANGE.format(each)}[1] > 19")
    # Once more, though nothing else happened on this chart.
    drag(page, "#run-mfu", 0.3, 0.6)
    page.wait_for_url(re.compile(r"zoom="))
    place.scroll_into_view_if_needed()
    box = place.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("!/zoom=|time=/.test(location.search)")
    assert page.url.startswith(server.address + run_address(LIVE_RUN))


def test_one_crosshair_stands_on_every_chart(page: Page, server: FakeServer) -> None:
    open_run(page, server)
    page.locator("#run-gpus").scroll_into_view_if_needed()
    box = page.locator("#run-gpus .nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 40)
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40, steps=3)
    single = ("gpus", "engines", "shares", "throughput", "mfu", "energy-steps")
    for chart, count in (*((f"run-{name}", 1) for name in single), ("run-health", 6)):
        page.wait_for_function(f"({LINES})('{chart}').length === {count}")
    (above,) = page.evaluate(f"({LINES})('run-gpus')")
    (below,) = page.evaluate(f"({LINES})('run-engines')")
    assert abs(above - below) < 1.5
    # The browser is in another zone than UTC: steps and stages stand above their GPUs all the same.
    for trace in ("x.yaxis === 'y3'", "x.name === 'gen'"):
        assert page.evaluate(IS_SHOWN.replace("WHICH", trace))


def test_energy_is_told_by_step_and_by_stage(page: Page, server: FakeServer) -> None:
    page.goto(server.address + run_address(LIVE_RUN))
    page.wait_for_selector("#run-energy-steps .barlayer .point")
    for axis in ("ytick", "y2tick"):
        units = page.locator(f"#run-energy-steps .{axis} text")
        expect(units.last).to_have_text(ENERGY)
    rows = page.locator("#run-energy-stages tbody tr")
    expect(rows.filter(has_text="gen").first).to_contain_text(ENERGY)
    expect(page.locator("#run-energy-aside")).to_contain_text(ENERGY)
    bar = page.locator("#run-energy-steps .barlayer .point path").last
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#run-energy-steps .hovertext").first).to_contain_text(ENERGY)
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url(re.compile(r"/step\?.*step=\d+"))


def test_charts_of_the_cluster_share_crosshair_and_time(page: Page, server: FakeServer) -> None:
    page.goto(server.address + "/cluster")
    page.wait_for_selector("#cluster-heat .heatmaplayer image")
    page.locator("#cluster-gpus .ag-center-cols-container [role=row]").first.click()
    page.wait_for_selector("#cluster-gpu .scatterlayer .trace")
    page.locator("#cluster-heat").scroll_into_view_if_needed()
    box = page.locator("#cluster-heat .nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 40)
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40, steps=3)
    for chart in ("cluster-heat", "cluster-gpu"):
        page.wait_for_function(f"({LINES})('{chart}').length === 1")
    drag(page, "#cluster-heat", 0.3, 0.6)
    page.wait_for_url(re.compile(r"time=\d+-\d+"))
    first, last = page.url.partition("time=")[2].partition("&")[0].split("-")
    length = int(last) - int(first)
    for chart in ("cluster-heat", "cluster-gpu"):
        ends = RANGE.format(chart)
        page.wait_for_function(
            f"Math.abs(new Date({ends}[1]) - new Date({ends}[0]) - {length}) < 1000"
        )
    # As many minutes as before: while another time is shown these are not chosen.
    page.locator("#cluster-span").get_by_text("10 min").click()
    page.wait_for_function("!location.search.includes('time=')")
    for chart in ("cluster-heat", "cluster-gpu"):
        ends = RANGE.format(chart)
        page.wait_for_function(f"new Date({ends}[1]) - new Date({ends}[0]) === 600000")


def test_weight_syncs_are_marks_on_the_time_axis(page: Page, server: FakeServer) -> None:
    open_run(page, server, "&axis=time")
    for chart in ("run-shares", "run-throughput", "run-mfu", "run-gpus", "run-engines"):
        expect(page.locator(f"#{chart} path.xtick.ticks").nth(3)).to_be_attached()
    signs = page.locator("#run-gpus .annotation", has_text="▴")
    signs.last.hover()
    expect(page.locator("#run-gpus .hovertext")).to_contain_text("update weights in step")


def test_health_is_shown_by_the_clock_too(page: Page, server: FakeServer) -> None:
    open_run(page, server, "&axis=time")
    kind = "document.querySelector('#run-health .js-plotly-plot')._fullLayout.xaxis.type"
    assert page.evaluate(kind) == "date"


def test_gpus_of_one_node_are_a_choice_in_the_address(page: Page, server: FakeServer) -> None:
    page.goto(server.address + run_address(LIVE_RUN) + "&only=node:node-a2")
    page.wait_for_selector("#run-gpus .heatmaplayer image")
    # All replicas are on the other node.
    expect(page.locator("#run-engines-absent")).to_contain_text("none of node node-a2")
    rows = "document.querySelector('#run-gpus .js-plotly-plot').data.find(t => t.name === 'gpus').y"
    page.wait_for_function(f"{rows}.length === 8 && {rows}.every(n => n.startsWith('node-a2'))")
    page.locator("#run-only").click()
    page.get_by_role("option", name="all GPUs").click()
    page.wait_for_function("!location.search.includes('only=')")
    page.wait_for_function(f"{rows}.length === 17")


def test_gpus_of_one_role_are_a_choice_in_the_address(page: Page, server: FakeServer) -> None:
    page.goto(server.address + run_address(ASYNC_RUN))
    page.wait_for_selector("#run-gpus .heatmaplayer image")
    page.locator("#run-only").click()
    page.get_by_role("option", name="role rollout").click()
    page.wait_for_url(re.compile("only=role"))
    plot = "document.querySelector('#run-gpus .js-plotly-plot')"
    rows = f"{plot}?.data?.find(t => t.name === 'gpus')?.y"
    # The other node trains.
    chosen = f"{rows}?.length === 8 && {rows}.every(name => name.startsWith('node-c2'))"
    page.wait_for_function(chosen)
    page.goto(page.url)
    page.wait_for_function(chosen)
    expect(page.locator("#run-only")).to_have_value("role rollout")


def test_samples_are_searched_and_those_of_a_replica_chosen(page: Page, server: FakeServer) -> None:
    page.goto(server.address + step_address(LIVE_RUN, 20) + "&only=replica:replica-2")
    cells = page.locator("#step-samples .ag-center-cols-container [col-id='replica']")
    expect(cells.first).to_have_text("replica-2")
    expect(cells.filter(has_not_text="replica-2")).to_have_count(0)
    page.get_by_label("Search samples").fill("0020-003")
    page.wait_for_url(re.compile("q=0020-003"))
    ids = page.locator("#step-samples .ag-center-cols-container [col-id='id']")
    expect(ids).to_have_count(2)
    page.get_by_label("Search samples").fill("no such sample")
    expect(page.locator("#step-samples-absent")).to_contain_text("No sample matches")


def test_a_replica_of_a_step_has_its_gpus_and_its_engine(page: Page, server: FakeServer) -> None:
    page.goto(server.address + step_address(LIVE_RUN, 20) + "&only=replica:replica-2")
    page.wait_for_selector("#step-timeline .heatmaplayer image")
    plot = "document.querySelector('#step-timeline .js-plotly-plot')"
    rows = f"{plot}?.data?.find(t => t.name === '{{}}')?.y?.length"
    page.wait_for_function(f"{rows.format('gpus')} === 2 && {rows.format('kv')} === 1")
    for panel in ("step-absent", "step-partial", "step-energy"):
        expect(page.locator(f"#{panel}")).to_contain_text("Not filtered:")
    expect(page.locator("#step-only")).to_have_value("replica-2")
    # What is on no GPU shows none, and says so.
    page.goto(server.address + step_address(LIVE_RUN, 20) + "&only=node:elsewhere")
    expect(page.locator("#step-absent")).to_contain_text("No GPU of node elsewhere")
    expect(page.locator("#step-samples-absent")).to_contain_text("none of node elsewhere")
    page.wait_for_function(f"{plot}?.data?.some(t => /^(gpus|kv)$/.test(t.name)) === false")


def test_a_replica_of_a_run_has_its_gpus_and_its_engine(page: Page, server: FakeServer) -> None:
    open_run(page, server)
    page.locator("#run-only").click()
    page.get_by_role("option", name="replica-2").click()
    page.wait_for_url(re.compile("only=replica"))
    rows = (
        "document.querySelector('#{} .js-plotly-plot')?.data?.find(t => t.name === '{}')?.y.length"
    )
    page.wait_for_function(f"{rows.format('run-engines', 'kv')} === 1")
    page.wait_for_function(f"{rows.format('run-gpus', 'gpus')} === 2")
    expect(page.locator("#run-gpus-absent")).to_contain_text("Not filtered:")


def test_the_step_shows_replicas_and_engines(page: Page, server: FakeServer) -> None:
    page.goto(server.address + step_address(LIVE_RUN, 20))
    page.wait_for_selector("#step-timeline .heatmaplayer image")
    names = page.evaluate(
        "document.querySelector('#step-timeline .js-plotly-plot').data.map(t => t.name)"
    )
    assert {"replicas", "kv", "run", "wait", "gpus"} <= set(names)


def open_step(page: Page, server: FakeServer, more: str = "") -> None:
    page.goto(server.address + step_address(LIVE_RUN, 20) + more)
    page.wait_for_selector("#step-timeline .heatmaplayer image")


STEP_TRACE = (
    "document.querySelector('#step-timeline .js-plotly-plot').data.find(t => t.name === '{}')"
)


def test_a_zoom_of_a_step_is_its_address_and_asks_for_finer_bins(
    page: Page, server: FakeServer
) -> None:
    open_step(page, server)
    bin_s = f"{STEP_TRACE.format('replicas')}.dx"
    begin_s = f"{STEP_TRACE.format('gpus')}.x0"
    coarse_s = page.evaluate(bin_s)
    drag(page, "#step-timeline", 0.4, 0.6)
    page.wait_for_url(re.compile(r"[?&]t=[\d.]+-[\d.]+"))
    first, last = map(float, page.url.partition("t=")[2].partition("&")[0].split("-"))
    is_shown = (
        f"Math.abs({RANGE.format('step-timeline')}[0] - {first}) < 0.01"
        f" && Math.abs({RANGE.format('step-timeline')}[1] - {last}) < 0.01"
    )
    page.wait_for_function(f"{is_shown} && {bin_s} < {coarse_s} / 4 && {begin_s} > 5")
    expect(page.locator("#step-absent")).to_contain_text("of the step. Show all of it")
    page.goto(page.url)
    page.wait_for_selector("#step-timeline .heatmaplayer image")
    page.wait_for_function(f"{is_shown} && {bin_s} < {coarse_s} / 4 && {begin_s} > 5")
    box = page.locator("#step-timeline .nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("!/[?&]t=/.test(location.search)")
    is_whole = f"{RANGE.format('step-timeline')}[0] < 0.1 && {bin_s} === {coarse_s}"
    page.wait_for_function(f"{is_whole} && {begin_s} < 5")
    # Once more, and back by the words below it.
    drag(page, "#step-timeline", 0.2, 0.3)
    page.wait_for_function(f"{bin_s} < {coarse_s} / 4")
    page.get_by_role("link", name="Show all of it").click()
    page.wait_for_function(is_whole)
    assert "t=" not in page.url.partition("?")[2].replace("step=", "")


def test_more_evidence_of_a_step_is_one_click_away(page: Page, server: FakeServer) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    open_step(page, server)
    rows = page.locator("#step-verdict .lp-effect:visible")
    expect(rows).to_have_count(3)
    # The timeline begins well above the end of the window.
    box = page.locator("#step-timeline").bounding_box()
    assert box is not None and box["y"] < 500
    page.locator("#step-evidence summary").click()
    expect(rows).to_have_count(6)


def test_a_step_says_what_stopping_early_would_have_saved(page: Page, server: FakeServer) -> None:
    page.goto(server.address + step_address(LIVE_RUN, 20))
    what_if = page.locator("#step-partial")
    for share in ("80 %", "90 %", "95 %"):
        expect(what_if).to_contain_text(f"stop at {share}")
    expect(what_if).to_contain_text("of the tokens")


def test_a_step_is_saved_as_a_trace(page: Page, server: FakeServer) -> None:
    page.goto(server.address + step_address(LIVE_RUN, 20))
    link = page.get_by_role("link", name="Trace")
    expect(link).to_have_attribute(
        "href", re.compile(r"/api/v1/export/chrome-trace\?run=.*step=20")
    )
    expect(link).to_have_attribute("download", re.compile(r"step-20\.json$"))


def test_a_report_is_one_file_that_needs_nothing(page: Page, server: FakeServer) -> None:
    open_run(page, server)
    with page.expect_download() as download:
        page.get_by_role("link", name="Report").click()
    text = download.value.path().read_text()
    assert download.value.suggested_filename.endswith("report.html")
    page.set_content(text)
    expect(page.locator("h1")).to_have_text("grpo-qwen3-8b-math")
    expect(page.locator("main")).to_contain_text("The rollout waits for a few long samples")
    assert page.locator("svg rect").count() > 100
    assert not re.search(r"(?:src|href)=\"(?!data:)", text)


@pytest.mark.parametrize("address", [run_address(LIVE_RUN), step_address(LIVE_RUN, 20), "/cluster"])
def test_pages_are_read_on_a_phone(page: Page, server: FakeServer, address: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(server.address + address)
    page.wait_for_selector(".heatmaplayer image")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    verdict = page.locator(".lp-verdict-title")
    if verdict.count():
        box = verdict.first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 844


def test_the_list_says_on_a_phone_what_a_run_waits_for(page: Page, server: FakeServer) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(server.address)
    run = page.locator("#runs-grid .lp-cell-run", has_text="grpo-qwen3-8b-math")
    expect(run.locator(".lp-cell-waits")).to_contain_text("long tail")
    expect(run.locator(".lp-cell-waits")).to_be_visible()
    expect(run.locator(".lp-cell-waits")).to_contain_text("live")
    step = page.locator("#runs-grid .ag-center-cols-container [col-id='step']").first
    box = step.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390


def test_the_slowest_samples_are_seen_on_a_phone(page: Page, server: FakeServer) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(server.address + step_address(LIVE_RUN, 20))
    page.wait_for_selector("#step-timeline .heatmaplayer image")
    row = page.locator("#step-samples .ag-center-cols-container .ag-row").first
    row.scroll_into_view_if_needed()
    box = row.bounding_box()
    table = page.locator("#step-samples").bounding_box()
    assert box is not None
    assert table is not None
    assert table["height"] > 200


def test_names_of_parts_are_not_broken_letter_by_letter_on_a_phone(
    page: Page, server: FakeServer
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(server.address + compare_address(LIVE_RUN, BASELINE_RUN))
    cell = page.locator("#compare-table td").first
    expect(cell).to_have_text("tokens a step")
    box = cell.bounding_box()
    assert box is not None
    assert box["height"] < 40
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_slow_query_is_waited_for_and_said(page: Page) -> None:
    own = FakeServer()
    own.start()
    try:
        own.slow_down(3600.0)
        page.goto(own.address + run_address(LIVE_RUN))
        expect(page.locator("#run-verdict")).to_be_empty()
        expect(page.locator("#connection")).to_contain_text("loading")
        expect(page.locator("#connection-pill")).to_have_attribute("data-state", "live")
        own.slow_down(0.0)
        page.wait_for_selector("#run-verdict .lp-verdict-title")
        expect(page.locator("#connection")).not_to_contain_text("loading")
    finally:
        own.slow_down(0.0)
        own.stop()


def test_nonsense_in_an_address_counts_as_absent(page: Page, server: FakeServer) -> None:
    open_run(page, server, "&zoom=nonsense&time=5-1&only=what&steps=-4")
    expect(page.locator("#run-verdict .lp-verdict-title")).to_be_visible()


def test_the_order_of_a_table_is_in_the_address(page: Page, server: FakeServer) -> None:
    cells = page.locator("#runs-grid .ag-center-cols-container [row-index='0'] [col-id='step']")
    page.goto(server.address + "/")
    page.locator("#runs-grid .ag-header-cell[col-id='step']").click()
    page.locator("#runs-grid .ag-header-cell[col-id='step']").click()
    page.wait_for_url(re.compile("sort=step%3Adesc"))
    expect(cells).to_contain_text("120")
    page.goto(page.url)
    expect(cells).to_contain_text("120")
    page.goto(server.address + "/?sort=nothing:up,step")
    expect(cells).not_to_contain_text("120")


def test_what_is_searched_for_on_the_cluster_is_in_the_address(
    page: Page, server: FakeServer
) -> None:
    page.goto(server.address + "/cluster")
    page.get_by_label("Search nodes and GPUs").fill("node-b1")
    page.wait_for_url(re.compile("q=node-b1"))
    rows = page.locator("#cluster-nodes .ag-center-cols-container .ag-row")
    expect(rows).to_have_count(1)
    page.goto(page.url)
    expect(rows).to_have_count(1)
    expect(page.get_by_label("Search nodes and GPUs")).to_have_value("node-b1")
