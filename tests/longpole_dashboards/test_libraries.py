import re
from pathlib import Path

import plotly
import pytest

from longpole_dashboards.libraries import find_chart_library, leave_out_unused, shorten_library

PLOTLY = Path(str(plotly.__file__)).parent / "package_data/plotly.min.js"


def test_the_chart_librarys_address_names_its_version() -> None:
    address = find_chart_library("/below/")
    assert re.fullmatch(
        r"/below/_dash-component-suites/plotly/package_data/plotly\.v[\d_]+m\d+\.min\.js", address
    )


def test_a_page_has_no_script_that_it_does_not_use() -> None:
    def element(name: str) -> str:
        return f'<script src="/p/_dash-component-suites/{name}"></script>'

    used = [element("dash/deps/react@18.v4_4_1m1.3.1.min.js"), element("dash/dcc/core.v1m1.js")]
    unused = [
        element("dash/deps/polyfill@7.v4_4_1m1.12.1.min.js"),
        element("dash/dash_table/bundle.v7_4_1m1.js"),
    ]
    shown = leave_out_unused("\n".join([unused[0], *used, unused[1]]))
    assert shown.split() == "\n".join(used).split()


def test_names_of_countries_are_left_out_of_the_chart_library_alone() -> None:
    whole = PLOTLY.read_bytes()
    short = shorten_library("/_dash-component-suites/plotly/package_data/plotly.v1m1.js", whole)
    assert short.count(b"aliases:[]") > 200
    assert 40_000 < len(whole) - len(short) < 80_000
    # The countries themselves stay, and everything else.
    assert short.count(b"iso3:") == whole.count(b"iso3:")
    assert shorten_library("/assets/longpole.js", whole) is whole


@pytest.mark.parametrize("body", [b"", b"{aliases:[]}", b"\xff\xfe"])
def test_a_library_of_another_make_is_sent_as_it_is(body: bytes) -> None:
    assert shorten_library("/_dash-component-suites/plotly/x.js", body) == body
