import pytest

from longpole_server.alerts.rule import Judgement
from longpole_server.alerts.wording import fill_text, format_number, format_seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (4.25, "4.25 s"),
        (59.9, "59.9 s"),
        (60, "1 min"),
        (185, "3 min 5 s"),
        (7_800, "2 h 10 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations(seconds: float, text: str):
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.123456, "1", "0.123"),
        (12_345.6, "tokens", "12,346 tokens"),
        (0.5, "ratio", "50 %"),
        (None, "s", "unknown"),
        (float("nan"), "1", "nan"),
        (3 << 30, "bytes", "3 GiB"),
        (1.0, "steps", "1 step"),
        (1.0, "nats", "1 nats"),
        (2.0, "sample_fraction", "2 sample_fraction"),
    ],
)
def test_numbers(value: float | None, unit: str, text: str):
    assert format_number(value, unit) == text


def test_words_are_filled_in_once():
    judgement = Judgement(True, False, 2.0, 1.0, "s", words={"stage": "{value} of {nobody}"})
    text = fill_text("{entity} took {value}, {stage}, {nobody}.", judgement, "GPU {threshold}")
    assert text == "GPU {threshold} took 2 s, {value} of {nobody}, unknown."
