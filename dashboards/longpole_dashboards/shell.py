"""The frame around every page: navigation, theme, connection, and which page an address means.

Pages are told apart by the path only; everything behind the `?` is a page's own state. So going
from one step to the next keeps the page and only refreshes its panels.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import json
from collections.abc import Callable, Mapping

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import (
    ALERTS_PATH,
    CLUSTER_PATH,
    COMPARE_PATH,
    RUN_PATH,
    RUNS_PATH,
    SAMPLE_PATH,
    STEP_PATH,
    Query,
)
from longpole_dashboards.components.notice import empty_state
from longpole_dashboards.components.panel import attributes
from longpole_dashboards.components.plain import WiredIds, flatten
from longpole_dashboards.first_sight import Visit
from longpole_dashboards.live import TICK_ID
from longpole_dashboards.script_policy import PLACE
from longpole_dashboards.theme import DEFAULT_THEME, FONT_FAMILY, MONO_FAMILY, css_variables
from longpole_server.service import who_asks

HEADER_PX = 44
PageLayout = Callable[[Query], Component]

# Runs before anything is drawn, so that a light page never flashes dark.
EARLY_SCRIPT = f"""
(function () {{
  var theme = "{DEFAULT_THEME}";
  try {{ theme = JSON.parse(localStorage.getItem("theme")) || theme; }} catch (error) {{ }}
  document.documentElement.setAttribute("data-mantine-color-scheme", theme);
  document.documentElement.setAttribute("data-ag-theme-mode", theme);
}})();
"""

# Pages that begin with charts.
CHART_PATHS = (RUN_PATH, STEP_PATH, SAMPLE_PATH, COMPARE_PATH, CLUSTER_PATH)
# Where the scripts of the next two functions go in the index page.
CHART_LIBRARY_PLACE = "<!--chart-library-->"


def first_questions_script(prefix: str) -> str:
    """Return a script that asks Dash's first two questions before Dash is there to ask them.

    What it says about the browser lets the server answer with the page and its first panels
    (`first_sight`). Dash gets these answers when it asks; should they fail, it asks by itself.
    """
    return f"""
(function () {{
  var prefix = {json.dumps(prefix)};
  var plainFetch = window.fetch.bind(window);
  var told = new URLSearchParams({{
    href: location.href,
    theme: document.documentElement.getAttribute("data-mantine-color-scheme"),
    zone: Intl.DateTimeFormat().resolvedOptions().timeZone || "",
    offset_min: -new Date().getTimezoneOffset()
  }});
  var asked = {{}};
  asked[prefix + "_dash-layout"] = plainFetch(prefix + "_dash-layout?" + told);
  asked[prefix + "_dash-dependencies"] = plainFetch(prefix + "_dash-dependencies");
  window.fetch = function (address, options) {{
    var answer = typeof address === "string" && asked[address];
    if (!answer) return plainFetch(address, options);
    delete asked[address];
    return answer.catch(function () {{ return plainFetch(address, options); }});
  }};
}})();
"""


def chart_library_script(address: str) -> str:
    """Return a script that lets pages with charts fetch the chart library at once.

    Dash fetches it when the first chart asks for it, by a name without a version: a browser would
    ask the server at each load whether it is still the same. `address` is one with a version.
    """
    paths = json.dumps(CHART_PATHS)
    return f"""
(function () {{
  var address = {json.dumps(address)};
  Object.defineProperty(window, "_dashPlotlyJSURL", {{
    get: function () {{ return address; }}, set: function () {{ }}
  }});
  if ({paths}.indexOf(location.pathname) < 0) return;
  var link = document.createElement("link");
  link.rel = "preload";
  link.as = "script";
  link.href = address;
  document.head.appendChild(link);
}})();
"""


INDEX_STRING = f"""<!DOCTYPE html>
<html lang="en">
<head>
{PLACE}
{{%metas%}}
<title>{{%title%}}</title>
<link rel="icon" href="assets/icons/longpole.svg" type="image/svg+xml">
{{%css%}}
<style>{css_variables()}</style>
<script>{EARLY_SCRIPT}</script>
{CHART_LIBRARY_PLACE}
</head>
<body>
{{%app_entry%}}
<footer>{{%config%}}{{%scripts%}}{{%renderer%}}</footer>
</body>
</html>"""


def shell_layout(visit: Visit | None = None, page: Component | None = None) -> Component:
    """Return the frame with the stores that every page listens to, for who asks for it.

    What a visit tells need not be found out again by the browser: whatever changes there while a
    page begins is looked at by all of it.
    """
    theme = visit.theme if visit is not None else DEFAULT_THEME
    return dmc.MantineProvider(
        [
            _location(visit),
            dcc.Store(id=TICK_ID),
            dcc.Store(id="live"),
            dcc.Store(id="paused", data=False),
            dcc.Store(id="theme", storage_type="local", data=theme),
            dcc.Store(id="zone", data=dict(visit.zone) if visit is not None else None),
            dmc.AppShell(
                [
                    dmc.AppShellHeader(_header(), className="lp-header"),
                    dmc.AppShellMain(
                        [
                            html.Div(id="connection-notice", className="lp-connection-notice"),
                            html.Main(page, id="page"),
                            # What keys come to on a chart: `assets/chartkeys.js` writes it.
                            html.Div(
                                id="lp-chart-said",
                                className="lp-unseen",
                                **attributes(aria_live="polite"),
                            ),
                        ]
                    ),
                ],
                header={"height": HEADER_PX},
                padding=0,
            ),
        ],
        id="theme-provider",
        forceColorScheme=theme,
        theme={
            "fontFamily": FONT_FAMILY,
            "fontFamilyMonospace": MONO_FAMILY,
            "primaryColor": "blue",
            "defaultRadius": "sm",
            "cursorType": "pointer",
        },
    )


def _location(visit: Visit | None) -> Component:
    if visit is None:
        return dcc.Location(id="url", refresh="callback-nav")
    return dcc.Location(
        id="url",
        refresh="callback-nav",
        href=visit.href,
        pathname=visit.pathname,
        search=visit.search,
        hash=visit.fragment,
    )


def _header() -> Component:
    return html.Div(
        [
            dcc.Link(
                [html.I(className="lp-logo"), html.Span("Longpole")],
                href=RUNS_PATH,
                className="lp-brand",
            ),
            html.Nav(
                [
                    dcc.Link("Runs", href=RUNS_PATH, className="lp-nav", id="nav-runs"),
                    dcc.Link("Cluster", href=CLUSTER_PATH, className="lp-nav", id="nav-cluster"),
                    dcc.Link(
                        ["Alerts", html.Span(id="alerts-badge", className="lp-badge")],
                        href=ALERTS_PATH,
                        className="lp-nav",
                        id="nav-alerts",
                    ),
                ],
                className="lp-navs",
            ),
            html.Div(id="crumbs", className="lp-crumbs"),
            html.Div(className="lp-spring"),
            html.Div(
                [html.I(className="lp-connection-dot"), html.Span(id="connection")],
                id="connection-pill",
                className="lp-connection",
                role="status",
            ),
            html.Button(
                html.I(className="lp-icon lp-icon-pause"),
                id="pause",
                className="lp-button",
                title="Pause (space)",
                **attributes(aria_label="Pause or resume live updates"),
            ),
            html.Button(
                [html.I(className="lp-icon lp-icon-link"), html.Span(className="lp-copied")],
                id="copy-link",
                className="lp-button",
                title="Copy the address of this view",
                **attributes(aria_label="Copy the address of this view"),
            ),
            html.Button("Jump to live", id="jump", className="lp-button lp-jump"),
            html.Button(
                html.I(className="lp-icon lp-icon-theme"),
                id="theme-toggle",
                className="lp-button",
                title="Dark or light",
                **attributes(aria_label="Switch between dark and light"),
            ),
            *_sign_out(),
        ],
        className="lp-header-row",
    )


def _sign_out() -> list[Component]:
    """Return who is signed in, with the way out; nothing where nobody had to."""
    principal = who_asks().principal
    if not principal.subject:
        return []
    button = html.Button(
        principal.name,
        type="submit",
        className="lp-button",
        title=f"Signed in as {principal.name} ({principal.role}): sign out",
    )
    return [html.Form(button, action="/logout", method="POST", className="lp-sign-out")]


def missing_page() -> Component:
    """Return what stands where no page is."""
    return empty_state(
        "There is no such page", dcc.Link("All runs", href=RUNS_PATH, className="lp-link")
    )


def register_shell(app: Dash, pages: Mapping[str, PageLayout]) -> None:
    """Register navigation, theme and connection state."""
    wired = WiredIds(app)

    @app.callback(
        Output("page", "children"),
        Input("url", "pathname"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    async def show_page(pathname: str | None, search: str | None) -> Component:
        layout = pages.get(pathname or RUNS_PATH)
        if layout is None:
            return missing_page()
        return flatten(layout(Query.parse(search)), wired.find())

    def client(name: str, *wiring: Output | Input | State, at_once: bool = False) -> None:
        function = ClientsideFunction("longpole", name)
        app.clientside_callback(function, *wiring, prevent_initial_call=not at_once)

    client("zone", Output("zone", "data"), Input("url", "pathname"))
    client(
        "forward",
        Output("live", "data"),
        Input(TICK_ID, "data"),
        Input("paused", "data"),
        State("live", "data"),
    )
    client(
        "pause",
        Output("paused", "data"),
        Input("pause", "n_clicks"),
        Input("jump", "n_clicks"),
        State("paused", "data"),
    )
    client(
        "toggleTheme",
        Output("theme", "data"),
        Input("theme-toggle", "n_clicks"),
        State("theme", "data"),
    )
    client("applyTheme", Output("theme-provider", "forceColorScheme"), Input("theme", "data"))
    client("badge", Input(TICK_ID, "data"))
    client(
        "crumbs",
        Output("crumbs", "children"),
        Input("url", "pathname"),
        Input("url", "search"),
        at_once=True,
    )


def register_choices(app: Dash, path: str, choices: Mapping[str, tuple[str, str]]) -> None:
    """Tie controls to the address: `choices` maps a control's id to (query name, default).

    A changed control rewrites the address; a changed address (back button, pasted link) moves the
    control. Neither asks the server.
    """
    for control, (name, default) in choices.items():
        app.clientside_callback(
            f"value => window.longpole.choose({path!r}, {name!r}, value, {default!r})",
            Input(control, "value"),
            prevent_initial_call=True,
        )
        app.clientside_callback(
            f"search => window.longpole.chosen({path!r}, search, {name!r}, {default!r})",
            Output(control, "value"),
            Input("url", "search"),
            # Pages come with their controls as the address says.
            prevent_initial_call=True,
        )
