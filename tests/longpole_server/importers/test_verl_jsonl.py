"""The JSONL parser skips what it cannot read, and says so."""

from hypothesis import given
from hypothesis import strategies as st

from longpole_server.importers.logged import LogSummary
from longpole_server.importers.verl_jsonl import parse_jsonl


def test_null_is_not_reported_and_nested_validation_values_are_flattened() -> None:
    summary = LogSummary()
    text = '{"step": 3, "data": {"a": null, "b": 1, "val": {"x": {"y": 0.5}}, "text": "1"}}\n'
    lines = list(parse_jsonl([text], summary))
    assert lines[0].step == 3
    assert lines[0].scalars == {"b": 1.0, "val/x/y": 0.5}


def test_a_torn_last_line_is_a_note_and_a_broken_one_elsewhere_is_counted() -> None:
    summary = LogSummary()
    lines = list(
        parse_jsonl(['{"step": 1, "data": {"a": 1}}\n', "not json\n", '{"step": 2, "da'], summary)
    )
    assert [line.step for line in lines] == [1]
    assert summary.num_unreadable == 1
    assert summary.torn_last_line
    assert {note.code for note in summary.finish()} == {"line.torn", "line.unreadable"}


@given(st.lists(st.text(max_size=60).map(lambda text: text.replace("\n", "") + "\n")))
def test_no_text_breaks_the_parser(lines: list[str]) -> None:
    assert all(line.step >= 0 for line in parse_jsonl(lines, LogSummary()))
