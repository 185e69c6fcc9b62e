"""Keeps a page up to date: on every pulse, panels whose data changed are rendered anew.

A page consists of groups of panels. Each group has one callback. Its pulse is let through by the
browser only once the group's previous answer has arrived (`pulse` in `assets/longpole.js`), so a
slow server makes pages slower, never staler and staler.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportUnknownArgumentType=false

import hashlib
import logging
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from dash import Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from longpole_dashboards.addresses import Query
from longpole_dashboards.components.notice import error_notice, missing_notice
from longpole_dashboards.components.plain import WiredIds, flatten, to_values
from longpole_dashboards.figures.figure import Figure
from longpole_dashboards.formats import Zone
from longpole_dashboards.reading import Reader
from longpole_dashboards.theme import DEFAULT_THEME, ThemeName
from longpole_server.errors import NotFoundError, ServerError

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class View:
    """What one browser looks at.

    Attributes:
        now_ns: The newest data that can be read; open things end here.
        zooms: Graph id -> what its viewer zoomed to, see `keep_zoom`.
    """

    query: Query
    theme: ThemeName
    zone: Zone
    now_ns: int
    zooms: Mapping[str, object] = field(default_factory=dict[str, object])


R = TypeVar("R")


@dataclass(frozen=True)
class Panel(Generic[R]):
    """A part of a page.

    Attributes:
        outputs: (component id, property) of everything the panel fills.
        key: What its content depends on; an equal key means nothing to do. It must be cheap.
        render: Returns one value per output.
    """

    outputs: tuple[tuple[str, str], ...]
    key: Callable[[R], object]
    render: Callable[[R], tuple[object, ...]]


@dataclass(frozen=True)
class PanelGroup(Generic[R]):
    """Panels that share one reading of the data and are refreshed together.

    Attributes:
        name: Unique in the program; prefix of the group's component ids.
        path: Path of the page.
        read: Opens the reading that `panels` draw from.
    """

    name: str
    path: str
    read: Callable[[Reader, View], R]
    panels: tuple[Panel[R], ...]


@dataclass(slots=True)
class Rendered:
    """What one refresh found: a value per output, a key per panel, and what went wrong.

    Attributes:
        is_missing: Whether there is nothing to show but the notice.
    """

    values: list[object]
    keys: dict[str, str]
    notice: object
    is_missing: bool = False


def group_stores(name: str) -> list[dcc.Store]:
    """Return the stores a page's layout needs for one of its groups."""
    return [dcc.Store(id=f"{name}-{part}") for part in ("pulse", "answer", "gate", "zooms")]


def group_targets(group: PanelGroup[Any]) -> Sequence[tuple[str, str]]:
    """Return (component id, property) of everything a group fills, in its order."""
    return [target for panel in group.panels for target in panel.outputs]


def notice_slot(name: str) -> Component:
    """Return the place in which a group says what went wrong. Of several the first one shows."""
    return html.Div(id=f"{name}-notice", className="lp-notice-slot")


def register_group(app: Dash, reader: Reader, group: PanelGroup[R]) -> None:
    """Register the callbacks that keep a group of panels up to date."""
    pulse, answer, notice = f"{group.name}-pulse", f"{group.name}-answer", f"{group.name}-notice"
    # It sets the pulse itself: as a declared output it would close a circle with the answer. Its
    # declared output only says on which page it lives.
    app.clientside_callback(
        f"(live, answer, pulse) => window.longpole.pulse({pulse!r}, live, answer, pulse)",
        Output(f"{group.name}-gate", "data"),
        Input("live", "data"),
        Input(answer, "data"),
        State(pulse, "data"),
    )
    zooms = f"{group.name}-zooms"
    targets = group_targets(group)
    outputs = [Output(*target) for target in targets]
    wired = WiredIds(app)
    for graph_id, prop in targets:
        if prop == "figure":
            app.clientside_callback(
                f"(event, kept) => longpole.zoomed({zooms!r}, {graph_id!r}, event, kept)",
                Input(graph_id, "relayoutData"),
                State(zooms, "data"),
                prevent_initial_call=True,
            )

    @app.callback(
        *outputs,
        Output(notice, "children"),
        Output(answer, "data"),
        Input(pulse, "data"),
        Input("url", "search"),
        Input("theme", "data"),
        State("url", "pathname"),
        State("zone", "data"),
        State(answer, "data"),
        State(zooms, "data"),
        # The page comes with its first answers, or its pulse asks for them.
        prevent_initial_call=True,
    )
    async def refresh(
        pulsed: Mapping[str, object] | None,
        search: str | None,
        theme: ThemeName | None,
        pathname: str | None,
        zone: Mapping[str, object] | None,
        answered: Mapping[str, object] | None,
        zoomed: Mapping[str, object] | None,
    ) -> list[object]:
        if pathname != group.path:
            raise PreventUpdate
        view = View(
            query=Query.parse(search),
            theme=theme or DEFAULT_THEME,
            zone=Zone.from_browser(zone),
            now_ns=reader.service.changes.current.ts_ns,
            zooms=zoomed or {},
        )
        known = (answered or {}).get("keys")
        keys = known if isinstance(known, dict) and ctx.triggered else {}
        rendered = await reader.run(answer_group, reader, group, view, keys, wired.find())
        version = (pulsed or {}).get("version")
        return [*rendered.values, rendered.notice, {"version": version, "keys": rendered.keys}]


def answer_group(
    reader: Reader,
    group: PanelGroup[R],
    view: View,
    known: Mapping[str, str],
    wired: Collection[str],
) -> Rendered:
    """Render a group and turn what it shows into plain values, all of it beside the event loop."""
    rendered = render_group(reader, group, view, known)
    rendered.values = [
        value.to_plotly_json() if isinstance(value, Figure) else to_values(flatten(value, wired))
        for value in rendered.values
    ]
    rendered.notice = to_values(flatten(rendered.notice, wired))
    return rendered


def render_group(
    reader: Reader, group: PanelGroup[R], view: View, known: Mapping[str, str]
) -> Rendered:
    """Render the panels of a group whose key differs from the `known` one."""
    num_outputs = len(group_targets(group))
    rendered = Rendered([], {}, None)
    try:
        reading = group.read(reader, view)
        for index, panel in enumerate(group.panels):
            _render_panel(panel, str(index), reading, view, known, rendered)
    except NotFoundError as error:
        notice = missing_notice(error.message, error.hint, _find_run(reader, view))
        return Rendered([no_update] * num_outputs, {}, notice, is_missing=True)
    except ServerError as error:
        return Rendered([no_update] * num_outputs, {}, error_notice(error.message, error.hint))
    except Exception:  # noqa: BLE001 - the page must say that it is not up to date, and try again
        LOG.error("Could not refresh %s:\n%s", group.path, traceback.format_exc())
        notice = error_notice("This page could not be brought up to date.", "It tries again.")
        return Rendered([no_update] * num_outputs, {}, notice)
    return rendered


def _find_run(reader: Reader, view: View) -> str | None:
    """Return the run in which a step or sample was looked for."""
    run_id = view.query.text("run")
    try:
        return None if run_id is None else reader.service.get_run(run_id).summary.run_id
    except ServerError:
        return None


def _render_panel(
    panel: Panel[R],
    name: str,
    reading: R,
    view: View,
    known: Mapping[str, str],
    rendered: Rendered,
) -> None:
    described = repr((panel.key(reading), view.theme, view.zone.label))
    key = hashlib.blake2b(described.encode(), digest_size=8).hexdigest()
    rendered.keys[name] = key
    if known.get(name) == key:
        rendered.values.extend([no_update] * len(panel.outputs))
    else:
        values = panel.render(reading)
        rendered.values.extend(
            keep_zoom(value, view.zooms.get(component)) if prop == "figure" else value
            for (component, prop), value in zip(panel.outputs, values, strict=True)
        )


def keep_zoom(figure: object, zoom: object) -> object:
    """Return a figure with the viewer's zoom, if that was made on a figure of the same revision.

    `uirevision` alone does not keep it: Dash 4.4 writes a zoom into the figure's own layout, after
    which Plotly takes it for the program's. `zoom` is `{"revision", "range"}` from the browser.
    Where the address holds the zoom (`meta.zoom`) it alone counts.
    """
    if isinstance(figure, Figure) and isinstance(zoom, Mapping):
        if (figure.layout.get("meta") or {}).get("zoom") == "address":
            return figure
        revision, span = zoom.get("revision"), zoom.get("range")
        if None not in (span, revision) and revision == figure.layout.get("uirevision"):
            figure.update_layout(xaxis={"range": span, "autorange": False})
    return figure
