import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_agent.sources.exposition import Sample, read_page

LABEL = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,10}", fullmatch=True)
TEXT = st.text(
    st.characters(
        exclude_categories=("Cs",), exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
    ),
    max_size=20,
)


def read(text: str) -> list[Sample | None]:
    return list(read_page(text))


def test_kinds_come_from_the_type_lines_of_the_family() -> None:
    page = """
# HELP vllm:generation_tokens_total Number of tokens.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 1.5e+03
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0"} 0.25 1700000000000
# TYPE vllm:e2e histogram
vllm:e2e_bucket{le="+Inf"} 3
vllm:e2e_sum 4.5
vllm:e2e_count 3 # {trace_id="x"} 0.1
untyped 7
"""
    tokens, usage, bucket, total, count, untyped = read(page)
    assert tokens == Sample(
        "vllm:generation_tokens_total", (("engine", "0"), ("model_name", "m")), 1500.0, "counter"
    )
    assert usage is not None
    assert (usage.value, usage.kind, usage.is_cumulative) == (0.25, "gauge", False)
    assert [each.kind for each in (bucket, total, count) if each] == ["histogram"] * 3
    assert total is not None and total.is_cumulative
    assert untyped == Sample("untyped", (), 7.0, "")


@pytest.mark.parametrize(
    ("line", "name", "labels"),
    [
        ('{"val-core/a@1"} 1', "val-core/a@1", ()),
        ('{"a b", x="1"} 1', "a b", (("x", "1"),)),
        ('a{"x.y"="1",} 1', "a", (("x.y", "1"),)),
        (r'a{x="q\"\\n\n"} 1', "a", (("x", 'q"\\n\n'),)),
        ('a { x = "1" } 1', None, ()),
        ("a\t1", "a", ()),
    ],
)
def test_spellings_of_names_and_labels(
    line: str, name: str | None, labels: tuple[tuple[str, str], ...]
) -> None:
    (sample,) = read(line)
    if name is None:
        assert sample is None
    else:
        assert sample is not None
        assert (sample.name, sample.labels, sample.value) == (name, labels, 1.0)


@pytest.mark.parametrize(
    "line", ["a", "a{", 'a{x="1" 1', "a{x=1} 1", "{} 1", "a one", "=1", 'a{x="1"}']
)
def test_a_line_that_is_no_series_is_passed_over(line: str) -> None:
    assert read(f"b 1\n{line}\nc 2") == [Sample("b", (), 1.0, ""), None, Sample("c", (), 2.0, "")]


def test_values_may_be_no_number() -> None:
    values = [sample.value for sample in read("a NaN\nb +Inf\nc -Inf") if sample]
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf]


@given(st.lists(st.tuples(LABEL, TEXT), max_size=4, unique_by=lambda pair: pair[0]), st.floats())
def test_what_is_written_is_read_back(labels: list[tuple[str, str]], value: float) -> None:
    written = ",".join(f'{key}="{_escape(text)}"' for key, text in labels)
    (sample,) = read(f"name{{{written}}} {value!r}")
    assert sample is not None
    assert sample.labels == tuple(labels)
    assert sample.value == value or (math.isnan(sample.value) and math.isnan(value))


@given(st.text(max_size=200))
def test_no_page_makes_it_fail(text: str) -> None:
    read(text)


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
