"""The JSONL parser skips what it cannot read, and says so."""

import math

from hypothesis import given
from hypothesis import strategies as st

from longpole_server.importers.lines import read_lines
from longpole_server.importers.logged import LogLine, LogSummary
from longpole_server.importers.verl_jsonl import parse_jsonl


def parse(text: str) -> tuple[list[LogLine], LogSummary]:
    summary = LogSummary()
    return list(parse_jsonl(read_lines([text.encode()], summary), summary)), summary


def test_null_is_not_reported_and_nested_validation_values_are_flattened() -> None:
    lines, _ = parse(
        '{"step": 3, "data": {"a": null, "b": 1, "val": {"x": {"y": 0.5}}, "text": "1"}}\n'
    )
    assert lines[0].step == 3
    assert lines[0].scalars == {"b": 1.0, "val/x/y": 0.5}


def test_a_torn_last_line_is_a_note_and_a_broken_one_elsewhere_is_counted() -> None:
    lines, summary = parse('{"step": 1, "data": {"a": 1}}\nnot json\n{"step": 2, "da')
    assert [line.step for line in lines] == [1]
    assert summary.num_unreadable == 1
    assert summary.torn_last_line
    assert {note.code for note in summary.finish()} == {"line.torn", "line.unreadable"}


def test_a_whole_object_without_line_end_is_not_torn() -> None:
    lines, summary = parse('{"step": 1, "data": {"a": 1}}')
    assert lines == [LogLine(1, {"a": 1.0})]
    assert summary.finish() == ()


def test_pythons_own_nan_is_not_reported_and_the_rest_of_its_line_is() -> None:
    lines, summary = parse('{"step": 1, "data": {"a": NaN, "b": -Infinity, "c": 1e999, "d": 2}}\n')
    assert lines == [LogLine(1, {"d": 2.0})]
    assert set(summary.not_finite) == {"a", "b", "c"}


def test_an_object_nested_without_end_is_cut_off() -> None:
    nested = '{"a":' * 900 + "1" + "}" * 900
    lines, _ = parse(f'{{"step": 1, "data": {{"b": 2, "c": {nested}}}}}\n')
    assert lines == [LogLine(1, {"b": 2.0})]


@given(st.lists(st.text(max_size=60).map(lambda text: text.replace("\n", "") + "\n")))
def test_no_text_breaks_the_parser(lines: list[str]) -> None:
    for line in parse("".join(lines))[0]:
        assert line.step >= 0
        assert all(map(math.isfinite, line.scalars.values()))
