from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_dashboards.addresses import (
    Query,
    alerts_address,
    cluster_address,
    compare_address,
    run_address,
    sample_address,
    step_address,
)

run_ids = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1)


@given(run_ids, st.integers(0, 10**9))
def test_addresses_carry_any_run_id(run_id: str, step: int) -> None:
    run = Query.parse("?" + urlsplit(run_address(run_id)).query)
    assert run.text("id") == run_id
    found = Query.parse("?" + urlsplit(step_address(run_id, step)).query)
    assert (found.text("run"), found.number("step")) == (run_id, step)


def test_a_slash_in_a_run_id_is_encoded() -> None:
    assert run_address("math/grpo 7") == "/run?id=math%2Fgrpo%207"


def test_nonsense_counts_as_absent() -> None:
    query = Query.parse("?step=seven&unit=furlongs&time=9-3&empty=")
    assert query.number("step") is None
    assert query.choice("unit", ("seconds", "percent")) == "seconds"
    assert query.span_ms("time") is None
    assert query.text("empty") is None
    assert Query.parse(None).text("id") is None


def test_choices_and_spans() -> None:
    query = Query.parse("?unit=percent&time=1000-2500&unit=percent")
    assert query.choice("unit", ("seconds", "percent")) == "percent"
    assert query.span_ms("time") == (1000, 2500)


@pytest.mark.parametrize(
    "time", ["1-9223372036854775807", f"1-{'9' * 5000}", "1-4102444800001", "\u00b9-\u00b2", "1-"]
)
def test_a_time_that_no_clock_shows_counts_as_absent(time: str) -> None:
    assert Query({"time": time}).span_ms("time") is None


def test_pages_that_need_nothing_have_short_addresses() -> None:
    assert cluster_address() == "/cluster"
    assert cluster_address("node 1") == "/cluster?node=node%201"
    assert alerts_address() == "/alerts"
    assert alerts_address("a/b", "firing") == "/alerts?run=a%2Fb&state=firing"
    assert sample_address("a/b", "s&1") == "/trajectory?run=a%2Fb&id=s%261"


def test_comparisons_name_what_is_known_of_their_windows() -> None:
    assert compare_address("a", "b") == "/compare?a=a&b=b"
    both = compare_address("a", "a", (10, 20), (0, None))
    assert both == "/compare?a=a&b=a&from=10&to=20&b_from=0"
