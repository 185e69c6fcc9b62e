"""Renders the panels of a page as a browser would ask for them."""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

from typing import Any

from longpole_dashboards.addresses import Query
from longpole_dashboards.figures.figure import Figure
from longpole_dashboards.formats import Zone
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import PanelGroup, View
from longpole_dashboards.theme import ThemeName
from support.dashboard_fake_service import FakeService
from support.plotly_figures import check_figure

NOW_NS = 1_760_000_000 * 10**9


def make_view(query: dict[str, str], theme: ThemeName = "dark") -> View:
    """Return a view with these values in its address."""
    return View(Query(query), theme, Zone(), NOW_NS)


def render(group: PanelGroup[Any], service: FakeService, view: View) -> dict[str, Any]:
    """Return what every output of a page's panels would hold."""
    reader = Reader(service)
    reading = group.read(reader, view)
    found: dict[str, Any] = {}
    for panel in group.panels:
        assert panel.key(reading) == panel.key(group.read(reader, view))
        values = panel.render(reading)
        assert len(values) == len(panel.outputs)
        names = [".".join(output) for output in panel.outputs]
        checked = [check_figure(v) if isinstance(v, Figure) else v for v in values]
        found.update(zip(names, checked, strict=True))
    return found
