import io
import json
import logging
import sys

import pytest

from longpole.log_lines import JsonLines, TextLines, parse_form


def make_record(message: str, *, failed: bool = False) -> logging.LogRecord:
    exc_info = None
    if failed:
        try:
            raise ValueError("no number")
        except ValueError:
            exc_info = sys.exc_info()
    record = logging.LogRecord("longpole", logging.WARNING, "", 0, message, ("a",), exc_info)
    record.created = 1_700_000_000.25
    return record


def test_one_object_a_line() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.emit(make_record('%s said "no"\nand left'))
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "longpole",
        "message": 'a said "no"\nand left',
    }


def test_an_exception_is_a_field() -> None:
    line = json.loads(JsonLines().format(make_record("%s failed", failed=True)))
    assert line["message"] == "a failed"
    assert line["exception"].endswith("ValueError: no number")


def test_other_forms_are_refused() -> None:
    assert parse_form("json") == "json"
    with pytest.raises(ValueError, match="neither text nor json"):
        parse_form("xml")


def test_a_name_from_elsewhere_makes_no_line_of_its_own() -> None:
    line = TextLines().format(make_record("run %s\n2026 ERROR all is lost\x1b[2J\u2028 后"))
    assert line.endswith(r"WARNING run a\x0a2026 ERROR all is lost\x1b[2J\x2028 后")
    failed = TextLines().format(make_record("%s failed", failed=True)).splitlines()
    assert failed[0].endswith("WARNING a failed")
    assert failed[-1] == "ValueError: no number"
