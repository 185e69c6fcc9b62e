"""The console parser reads what people paste, and nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.importers.logged import LogLine, LogSummary
from longpole_server.importers.verl_console import parse_console, parse_value


def parse(text: str) -> tuple[list[LogLine], LogSummary]:
    summary = LogSummary()
    return list(parse_console(text.splitlines(keepends=True), summary)), summary


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("-0.000", 0.0),
        ("1e-06", 1e-06),
        ("9.87e-05", 9.87e-05),
        ("np.float64(0.123)", 0.123),
        ("np.int32(2)", 2.0),
        ("np.float64(-4.4e-06)", -4.4e-06),
        ("inf", math.inf),
        ("264.", 264.0),
    ],
)
def test_every_spelling_of_a_number_is_read(text: str, value: float) -> None:
    assert parse_value(text) == value


def test_nan_is_read_as_nan_and_text_is_no_number() -> None:
    nan = parse_value("np.float64(nan)")
    assert nan is not None
    assert math.isnan(nan)
    assert parse_value("np.float64") is None
    assert parse_value("abc") is None
    assert parse_value("[1, 2]") is None


def test_ray_prefix_colours_and_progress_bars_do_not_disturb() -> None:
    lines, _ = parse(
        "\x1b[36m(TaskRunner pid=31337)\x1b[0m step:1 - timing_s/step:2.5 - actor/lr:1e-06\n"
        "(TaskRunner pid=1, ip=10.4.1.33) step:2 - timing_s/step:3.5\n"
        "Training Progress:   2%|▏ | 2/800 [06:12<40:01:10, 190.02s/it]step:3 - timing_s/step:4\n"
        "Training Progress:  50%|█ | 1/2\rTraining Progress: 100%|██| 2/2\r"
        "step:4 - timing_s/step:np.float64(5.0) [repeated 7x across cluster]\n"
        "(WorkerDict pid=40101, ip=10.0.0.12) INFO saved step: nothing\n"
    )
    assert [(line.step, line.scalars["timing_s/step"]) for line in lines] == [
        (1, 2.5),
        (2, 3.5),
        (3, 4.0),
        (4, 5.0),
    ]
    assert lines[0].scalars["actor/lr"] == 1e-06


def test_keys_with_slashes_at_signs_and_parentheses_survive() -> None:
    lines, _ = parse("step:0 - val-core/openai/gsm8k/acc/mean@1:0.43 - train/total_tokens(B):1.5\n")
    assert lines[0].scalars == {
        "val-core/openai/gsm8k/acc/mean@1": 0.43,
        "train/total_tokens(B)": 1.5,
    }


def test_a_list_valued_key_is_left_out_and_the_rest_stays() -> None:
    lines, _ = parse("step:1 - a/b:[1, 2] - timing_s/step:2.0\n")
    assert lines[0].scalars == {"timing_s/step": 2.0}


def test_a_word_that_only_contains_step_is_no_step_line() -> None:
    lines, _ = parse("global_step:3 - x:1\nlast/step:4 - y:2\nstep:abc - z:1\n")
    assert lines == []


def wrap(text: str, width: int) -> str:
    return "\n".join(text[at : at + width] for at in range(0, len(text), width)) + "\n"


LINE = (
    "step:7 - global_seqlen/min:50979 - actor/entropy:0.311547044352337 - "
    "actor/ppo_kl:-1.8552509687647374e-05 - critic/advantages/min:-2.47 - "
    "timing_s/agent_loop/num_preempted/min:-1 - timing_s/step:209.72760208048402 - "
    "perf/throughput:264.2123614169542"
)


@given(width=st.integers(min_value=40, max_value=260))
def test_a_line_wrapped_by_a_terminal_reads_like_the_whole_line(width: int) -> None:
    whole, _ = parse(LINE + "\n")
    wrapped, _ = parse(wrap(LINE, width) + "(TaskRunner pid=1) next line of the log\n")
    assert [line.scalars for line in wrapped] == [line.scalars for line in whole]


def test_other_output_after_a_step_line_is_not_taken_for_its_rest() -> None:
    lines, _ = parse(
        LINE + "\nsaving checkpoint now\n12\n" + LINE.replace("step:7", "step:8") + "\n"
    )
    assert [line.step for line in lines] == [7, 8]
    assert lines[0].scalars["perf/throughput"] == 264.2123614169542


def test_a_torn_last_line_is_marked_and_noted() -> None:
    lines, summary = parse(LINE + "\nstep:8 - global_seqlen/min:1 - timing_s/st")
    assert [line.torn for line in lines] == [False, True]
    assert summary.torn_last_line
    assert summary.torn_step == 8


@given(st.text(max_size=400))
def test_no_text_breaks_the_parser(text: str) -> None:
    for line in parse(text)[0]:
        assert line.step >= 0


@given(
    step=st.integers(min_value=0, max_value=10**6),
    scalars=st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}(/[a-z0-9_@().]{1,8}){0,3}", fullmatch=True),
        st.floats(allow_nan=False, allow_infinity=False),
        min_size=1,
        max_size=12,
    ),
)
def test_what_verl_prints_is_read_back_exactly(step: int, scalars: dict[str, float]) -> None:
    text = " - ".join([f"step:{step}", *(f"{key}:{value!r}" for key, value in scalars.items())])
    lines, _ = parse(text + "\n")
    assert lines == [LogLine(step, scalars)]
