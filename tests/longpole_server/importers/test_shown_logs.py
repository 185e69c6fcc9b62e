"""Logs as people show them: broken over lines, without the beginning, compressed."""

import gzip
from pathlib import Path

import pytest

from longpole_server.importers.logged import LoggedStep, LogSummary
from longpole_server.importers.reading import read_steps
from longpole_server.importers.sources import LogSource

PAIRS = (
    "timing_s/gen:40.1 - timing_s/update_actor:20.0 - timing_s/step:66.0 - perf/throughput:900.0"
)


def read(text: str) -> tuple[list[LoggedStep], LogSummary]:
    summary = LogSummary()
    return list(read_steps(LogSource.of_bytes("log", text.encode(), 0), summary)), summary


@pytest.mark.parametrize(
    "text",
    [
        "perf 3: {\n    'perf/train_time': 20.0,\n    'perf/step_time': 50.5\n}\n",
        (
            "[2026-11-29 16:42:00] x.py:4 - perf 3:\n{\n  'perf/train_time': 20.0,\n"
            "  'perf/step_time': 50.5,\n}\n"
        ),
        "x - perf 3: {'perf/train_time': 20.0,\n 'perf/step_time': 50.5, 'perf/wait': 0.6}\n",
        'perf 3: {"perf/train_time": 20.0, "perf/step_time": 50.5}\n',
    ],
)
def test_slime_s_dictionary_is_read_over_several_lines(text: str) -> None:
    (step,), summary = read(text)
    assert (step.step, summary.system) == (3, "slime")
    assert step.scalars["perf/train_time"] == 20.0
    assert step.scalars["perf/step_time"] == 50.5


@pytest.mark.parametrize(
    "text",
    [
        "perf 3: {'perf/train_time': 20.0, 'perf/step_time': 50.5, ...}\n",
        "perf 3: {'perf/train_time': 20.0, … 'perf/step_time': 50.5}\n",
        "    perf 3: {'perf/train_time': 20.0, 'perf/step_time': 50.5}\n",
        "[2026-11-29 16:42:00] perf 3: {'perf/train_time': 20.0, 'perf/step_time': 50.5}\n",
        "{'rollout/step': 3, 'perf/train_time': 20.0, 'perf/step_time': 50.5}\n",
    ],
    ids=["pairs left out", "pairs left out within", "indented", "stamped", "the dictionary alone"],
)
def test_slimes_timers_are_read_however_they_are_shown(text: str) -> None:
    (step,), summary = read(text)
    assert (step.step, summary.system, summary.steps_are_counted) == (3, "slime", False)
    assert step.scalars["perf/train_time"] == 20.0
    assert step.scalars["perf/step_time"] == 50.5


def test_dictionaries_of_slime_without_a_number_are_counted() -> None:
    shown = "```python\n{\n    'rollout/raw_reward': 0.5\n}\n{\n    'perf/train_wait_time': 30.0,\n"
    steps, summary = read(
        2 * (shown + "    'perf/train_time': 20.0,\n    'perf/step_time': 50.0\n}\n")
    )
    assert [(step.step, step.scalars["perf/train_wait_time"]) for step in steps] == [
        (1, 30.0),
        (2, 30.0),
    ]
    # Nobody knows whether what stands above belongs to it.
    assert "rollout/raw_reward" not in steps[0].scalars
    assert summary.steps_are_counted


def test_a_step_that_a_terminal_broke_behind_a_blank_is_none_of_slime() -> None:
    row = f"(PPOTrainer pid=7) ✨ Global{' ' * 20}"
    text = f"{row.rstrip()}\n step 1: {{'timing/step_total': 9.5, 'timing/generation': 4.0}}\n"
    assert read(text)[1].system != "slime"


def test_areals_table_without_the_line_of_its_step_is_counted() -> None:
    row = "│ timeperf/rollout │ {} │ lr │ 5e-06 │\n│ timeperf/train_step │ 2e+01 │  │  │\n"
    steps, summary = read("stats\n" + row.format("8.0e+01") + row.format("7.0e+01"))
    assert [(step.step, step.scalars["timeperf/rollout"]) for step in steps] == [
        (1, 80.0),
        (2, 70.0),
    ]
    assert summary.system == "areal"
    assert summary.steps_are_counted


NEMO_RL = """Training Results:
Loss: 0.1032
Avg Reward: 0.3486
Timing:
Total step time: 66.55s
exposed_generation: 32.52s (48.9%)
policy_training: 25.05s (37.6%)
Performance Metrics:
E2E (Tokens/sec/gpu): 1992.83
Training Model Floating Point Utilization: 15.37%
"""


@pytest.mark.parametrize("head", ["", f"{'=' * 25} Step 1/100 {'=' * 25}\n"], ids=["bare", "step"])
def test_nemo_rls_blocks_without_bullets_are_read(head: str) -> None:
    # A server's line among them is none of the block, whatever it ends with.
    (step,), summary = read(head + "Downloading: 3.0 GB\nretries: 4\n" + NEMO_RL)
    assert (step.step, summary.system) == (1, "nemo_rl")
    assert step.scalars == {
        "train/loss": 0.1032,
        "train/reward": 0.3486,
        "timing/train/total_step_time": 66.55,
        "timing/train/exposed_generation": 32.52,
        "timing/train/policy_training": 25.05,
        "performance/tokens_per_sec_per_gpu": 1992.83,
        "performance/train_fp_utilization": pytest.approx(0.1537),
    }


def test_beside_bullets_a_line_without_one_is_another_programs() -> None:
    rows = NEMO_RL.replace("Loss", "• Loss").replace("Total", "• Total")
    head = f"{'=' * 25} Step 1/100 {'=' * 25}\n"
    (step,), _ = read(head + rows + "Loss: 7.5\nwarm-up: 3.00s (4.0%)\n")
    assert step.scalars == {"train/loss": 0.1032, "timing/train/total_step_time": 66.55}


def test_a_list_of_prime_rls_lines_is_not_one_step() -> None:
    lines = [
        f"16:43:4{step} SUCCESS Step {step} | Time: {step}.50s | Reward: 0.{step} | "
        f"Async Level: 1 | Max. Off-Policy Level: {step}"
        for step in (3, 4, 5)
    ]
    steps, _ = read(f"E   assert 'done' in {['', *lines, 'Orchestrator paused']!r}\n")
    assert [
        (
            step.step,
            step.scalars["orchestrator/time/step"],
            step.scalars["reward_mean"],
            step.scalars["off_policy/max"],
        )
        for step in steps
    ] == [(3, 3.5, 0.3, 3.0), (4, 4.5, 0.4, 4.0), (5, 5.5, 0.5, 5.0)]


@pytest.mark.parametrize(
    "shown",
    [
        '{{"time": "16:43:43", "message": "{}", "level": "SUCCESS"}}\n',
        "- Trainer: `{}`\n",
        "b'{}\\n'\n",
    ],
    ids=["json", "markdown", "bytes"],
)
def test_a_line_of_prime_rl_within_quotes_ends_with_them(shown: str) -> None:
    line = "Step 3 | Time: 72.50s | Loss: 0.0123 | Entropy: 1.0338 | Mismatch KL: 0.3523"
    (step,), _ = read(shown.format(line))
    assert step.scalars == {
        "time/step": 72.5,
        "loss/mean": 0.0123,
        "entropy/all/mean": 1.0338,
        "mismatch_kl/all/mean": 0.3523,
    }


def test_a_json_list_with_a_record_on_each_line_is_read() -> None:
    steps, summary = read(
        '[\n{"step": 1, "timing_s/step": 66.0},\n{"step": 2, "timing_s/step": 67.0}\n]\n'
    )
    assert [(step.step, step.scalars["timing_s/step"]) for step in steps] == [(1, 66.0), (2, 67.0)]
    assert summary.num_unreadable == 0


def test_ms_swift_s_jsonl_names_steps_and_says_what_they_took() -> None:
    rows = [
        f'{{"reward": 0.5, "completions/mean_length": 120.5, "global_step/max_steps": "{step}/9", '
        f'"elapsed_time": "{elapsed}"}}'
        for step, elapsed in ((1, "58s"), (2, "1m 58s"), (4, "4m 2s"))
    ]
    steps, _ = read("\n".join(rows) + "\n")
    assert [step.step for step in steps] == [1, 2, 4]
    assert [step.scalars.get("step_time") for step in steps] == [None, 60.0, 62.0]
    assert steps[0].scalars["completions/mean_length"] == 120.5


@pytest.mark.parametrize(
    ("text", "numbers", "counted"),
    [
        (f"{PAIRS}\n{PAIRS}\n", [1, 2], True),
        (PAIRS.replace(" - ", "\n").replace(":", ": ") + "\n", [1], True),
        ("- " + PAIRS.replace(" - ", "\n- ") + "\n", [1], True),
        (f"... training/global_step:7 - {PAIRS} ...\n", [7], False),
        (f"step: 5 - {PAIRS.replace(':', ': ')}\nstep: 6 - {PAIRS}\n", [5, 6], False),
    ],
)
def test_excerpts_of_verl_without_their_beginning_are_steps(
    text: str, numbers: list[int], counted: bool
) -> None:
    steps, summary = read(text)
    assert [step.step for step in steps] == numbers
    assert summary.steps_are_counted == counted
    assert summary.system == "verl"
    for step in steps:
        assert step.scalars["timing_s/gen"] == 40.1
        assert step.scalars["timing_s/step"] == 66.0


def test_a_value_that_may_be_cut_is_left_out() -> None:
    (step,), _ = read("timing_s/step:66.0 - timing_s/gen:4...\n")
    assert "timing_s/gen" not in step.scalars


def test_pairs_without_the_seconds_of_a_step_are_none() -> None:
    assert read("timing_s/gen:40.1 - timing_s/update_actor:20.0\n")[0] == []


def test_a_compressed_file_is_read_up_to_where_it_was_cut(tmp_path: Path) -> None:
    lines = "".join(f"step:{step} - {PAIRS}\r\n" for step in range(1, 2000))
    whole = gzip.compress(lines.encode())
    for body, least in ((whole, 1999), (whole[:-40], 1)):
        path = tmp_path / "train.log.gz"
        path.write_bytes(body)
        source = LogSource.of_file(path)
        assert source.name == "train.log"
        assert least <= len(list(read_steps(source, LogSummary()))) <= 1999
