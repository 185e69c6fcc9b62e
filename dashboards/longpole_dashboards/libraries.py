"""Other people's scripts: where the chart library is, and what of them no page needs.

A browser works for every script at every load, whatever the page shows: what is left out here took
a fifth of the time in which a page's scripts begin (`benchmarks/page_render.py`).
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

import re
from importlib import metadata
from pathlib import Path

import plotly
from dash.fingerprint import build_fingerprint

_CHART_LIBRARY = "package_data/plotly.min.js"
# What browsers of 2015 lacked, which also puts slow functions into the place of fast ones
# (`assets/lazy.js` has the one thing in it that Dash asks for); and tables that no page has.
_UNUSED = re.compile(
    r"<script [^>]*src=\"[^\"]*_dash-component-suites/dash/(?:deps/polyfill@|dash_table/)[^\"]*\""
    r"[^>]*></script>\s*"
)
# Names of countries in all languages for maps of the world: the library puts each of them into its
# plain form, twice, as soon as it is read.
_ALIASES = re.compile(rb"aliases:\[(?:\"(?:[^\"\\]|\\.)*\",?)+\]")


def find_chart_library(prefix: str) -> str:
    """Return the address of Plotly's script, which names its version. `prefix` is Dash's own."""
    file = Path(str(plotly.__file__)).parent / _CHART_LIBRARY
    version = metadata.version("plotly")
    name = build_fingerprint(_CHART_LIBRARY, version, int(file.stat().st_mtime))
    return f"{prefix}_dash-component-suites/plotly/{name}"


def leave_out_unused(scripts: str) -> str:
    """Return the elements of a page's scripts without those that no page uses."""
    return _UNUSED.sub("", scripts)


def shorten_library(path: str, body: bytes) -> bytes:
    """Return what is sent of the script at an address."""
    if "_dash-component-suites/plotly/" not in path:
        return body
    return _ALIASES.sub(b"aliases:[]", body)
