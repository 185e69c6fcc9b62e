"""The console parser reads what people paste, and nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.importers.lines import read_lines
from longpole_server.importers.logged import LogLine, LogSummary
from longpole_server.importers.verl_console import parse_console


def parse(text: str) -> tuple[list[LogLine], LogSummary]:
    summary = LogSummary()
    return list(parse_console(read_lines([text.encode()], summary), summary)), summary


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


LINE = (
    "step:7 - global_seqlen/min:50979 - actor/entropy:0.311547044352337 - "
    "actor/ppo_kl:-1.8552509687647374e-05 - critic/advantages/min:-2.47 - "
    "timing_s/agent_loop/num_preempted/min:-1 - timing_s/step:209.72760208048402 - "
    "perf/throughput:264.2123614169542"
)


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


def test_a_last_value_without_line_end_is_not_believed_but_its_step_is() -> None:
    # 264.2123614169542 cut to 264.2 still looks like a number.
    lines, summary = parse(LINE + "\n" + LINE.replace("step:7", "step:8")[:-12])
    assert [line.torn for line in lines] == [False, False]
    assert "perf/throughput" not in lines[1].scalars
    assert lines[1].scalars["timing_s/step"] == 209.72760208048402
    (note,) = summary.finish()
    assert note.code == "line.torn"
    assert note.first_step == 8
    assert "not used" in note.summary


def test_a_single_pasted_line_without_line_end_is_read() -> None:
    (line,), _ = parse(LINE)
    assert not line.torn
    assert line.scalars["timing_s/step"] == 209.72760208048402


def test_a_line_cut_within_a_key_is_torn_though_its_last_pair_is_whole() -> None:
    cut = LINE.replace("step:7", "step:8").partition(" - timing_s/step")[0]
    lines, _ = parse(LINE + "\n" + cut)
    assert lines[1].torn


@pytest.mark.parametrize("before", ["", LINE + "\n"])
def test_a_line_cut_anywhere_is_noted_and_has_no_wrong_value(before: str) -> None:
    line = LINE.replace("step:7", "step:8")
    whole = parse(line + "\n")[0][0].scalars
    for at in range(1, len(line) + 1):
        lines, summary = parse(before + line[:at])
        assert [note.code for note in summary.finish()] == ["line.torn"]
        for found in lines[1:] if before else lines:
            assert found.scalars.items() <= whole.items()
            assert found.torn or "timing_s/step" in found.scalars


def test_a_first_line_of_the_first_versions_that_is_cut_is_torn() -> None:
    # It has no seconds of the step that would tell that all stages are there.
    (line,), _ = parse("step:1 - timing/gen:8.0 - timing/update_ac")
    assert line.torn


def test_nan_and_infinity_are_left_out_and_named() -> None:
    lines, summary = parse(
        "step:1 - actor/loss:nan - actor/grad_norm:inf - timing_s/step:2.0\n"
        "step:2 - actor/loss:np.float64(nan) - actor/grad_norm:-inf - timing_s/step:2.0\n"
        "step:3 - actor/loss:np.float32(-inf) - timing_s/step:2.0\n"
    )
    assert [line.scalars for line in lines] == [{"timing_s/step": 2.0}] * 3
    (note,) = summary.finish()
    assert note.code == "value.not_finite"
    assert "`actor/loss` (3 times), `actor/grad_norm` (2 times)" in note.summary


def test_a_tensor_with_its_device_is_a_number() -> None:
    lines, _ = parse("step:1 - a/b:tensor(0.5, device='cuda:0') - timing_s/step:2.0\n")
    assert lines[0].scalars == {"a/b": 0.5, "timing_s/step": 2.0}


@pytest.mark.parametrize("digits", ["9" * 12, "9" * 5000])
def test_an_absurd_step_number_is_no_step(digits: str) -> None:
    assert parse(f"step:{digits} - timing_s/step:1.0\n")[0] == []


def test_another_programs_step_line_is_not_verls() -> None:
    lines, summary = parse(
        "INFO trainer.py step:3 - loss:0.31 - lr:1e-06\n" + LINE + "\n" + "saved at step:2\n"
    )
    assert [line.step for line in lines] == [7]
    assert summary.num_step_lines == 1


def test_a_resume_is_told_though_another_programs_step_comes_first() -> None:
    lines, _ = parse("Setting global step to 6\nstep:3 - loss:0.31\n" + LINE + "\n")
    assert [line.resumed for line in lines] == [True]


@given(st.binary(max_size=400))
def test_no_bytes_break_the_parser(data: bytes) -> None:
    summary = LogSummary()
    for line in parse_console(read_lines([data], summary), summary):
        assert line.step >= 0
        assert all(map(math.isfinite, line.scalars.values()))


@given(
    step=st.integers(min_value=0, max_value=10**6),
    scalars=st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}(/[a-z0-9_@().]{1,8}){1,3}", fullmatch=True),
        st.floats(allow_nan=False, allow_infinity=False),
        min_size=1,
        max_size=12,
    ),
)
def test_what_verl_prints_is_read_back_exactly(step: int, scalars: dict[str, float]) -> None:
    text = " - ".join([f"step:{step}", *(f"{key}:{value!r}" for key, value in scalars.items())])
    lines, _ = parse(text + "\n")
    assert lines == [LogLine(step, scalars)]
