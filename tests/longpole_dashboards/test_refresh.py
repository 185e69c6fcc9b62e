from longpole_dashboards.addresses import Query
from longpole_dashboards.figures.figure import Figure
from longpole_dashboards.formats import Zone
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import Panel, PanelGroup, View, keep_zoom, render_group
from longpole_server.errors import BusyError, NotFoundError
from support.dashboard_components import words
from support.dashboard_fake_service import FakeService

VIEW = View(Query({}), "dark", Zone(), 0)


class Reading:
    """What two panels draw from."""

    def __init__(self, first: int, second: int) -> None:
        self.first, self.second = first, second


def make_group(reading: Reading | Exception) -> PanelGroup[Reading]:
    def read(reader: Reader, view: View) -> Reading:
        if isinstance(reading, Exception):
            raise reading
        return reading

    return PanelGroup(
        "group",
        "/",
        read,
        (
            Panel((("a", "children"),), lambda r: r.first, lambda r: (f"first {r.first}",)),
            Panel(
                (("b", "children"), ("c", "children")),
                lambda r: r.second,
                lambda r: (f"second {r.second}", "more"),
            ),
        ),
    )


def render(reading: Reading | Exception, known: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    rendered = render_group(Reader(FakeService(0, specs=())), make_group(reading), VIEW, known)
    said = ["unchanged" if "NoUpdate" in repr(value) else str(value) for value in rendered.values]
    return said, rendered.keys


def test_only_what_changed_is_rendered() -> None:
    said, keys = render(Reading(1, 1), {})
    assert said == ["first 1", "second 1", "more"]
    said, keys = render(Reading(1, 2), keys)
    assert said == ["unchanged", "second 2", "more"]
    assert render(Reading(1, 2), keys)[0] == ["unchanged"] * 3


def test_another_theme_renders_everything_anew() -> None:
    _, keys = render(Reading(1, 1), {})
    light = View(Query({}), "light", Zone(), 0)
    again = render_group(Reader(FakeService(0, specs=())), make_group(Reading(1, 1)), light, keys)
    assert again.values == ["first 1", "second 1", "more"]


def test_an_error_is_told_and_everything_is_rendered_once_it_is_over() -> None:
    for error, told in (
        (BusyError("The store is busy."), "The store is busy."),
        (NotFoundError("There is no run x."), "There is no run x."),
        (RuntimeError("a secret detail"), "could not be brought up to date"),
    ):
        rendered = render_group(
            Reader(FakeService(0, specs=())), make_group(error), VIEW, {"0": "k"}
        )
        assert told in words(rendered.notice)
        assert "secret" not in words(rendered.notice)
        assert rendered.keys == {}
        assert len(rendered.values) == 3


def test_a_zoom_is_kept_on_the_same_revision_only() -> None:
    for revision, kept in (("run-1", [3, 7]), ("run-2", None)):
        figure = Figure()
        figure.update_layout(uirevision="run-1")
        keep_zoom(figure, {"revision": revision, "range": [3, 7]})
        assert figure.layout.get("xaxis", {}).get("range") == kept
    unmarked = keep_zoom(Figure(), {"revision": None, "range": [3, 7]})
    assert isinstance(unmarked, Figure) and "xaxis" not in unmarked.layout
    assert keep_zoom("no figure", {"revision": "a", "range": [1, 2]}) == "no figure"
