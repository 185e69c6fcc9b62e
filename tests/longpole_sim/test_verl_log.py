import json
from pathlib import Path

from longpole_sim import Cluster, make_run, plan_run
from longpole_sim.verl_log import console_lines, jsonl_lines, write_console_log, write_jsonl_log

RUN = make_run("long_tail", 4, cluster=Cluster(nodes=1, gpus_per_node=2))


def test_a_console_log_has_a_line_per_step_after_the_first_validation() -> None:
    lines = [line for line in console_lines(RUN, plan_run(RUN, 3)) if "step:" in line]
    assert [line.split("step:")[1].split(" ")[0] for line in lines] == ["0", "1", "2", "3"]
    assert all(line.startswith("\x1b[36m(TaskRunner pid=31337)\x1b[0m ") for line in lines)
    assert "val-core/openai/gsm8k/acc/mean@1:0.4321" in lines[0]


def test_numpy_values_are_printed_with_their_type() -> None:
    last = list(console_lines(RUN, plan_run(RUN, 1)))[-1]
    assert " - num_turns/min:np.int64(2) - " in last
    assert "timing_s/agent_loop/generate_sequences/max:np.float64(" in last
    assert " - actor/lr:1e-06 - " in last


def test_console_and_file_hold_the_same_values() -> None:
    record = json.loads(list(jsonl_lines(RUN, plan_run(RUN, 2)))[-1])
    line = list(console_lines(RUN, plan_run(RUN, 2)))[-1]
    assert record["step"] == 2
    gen = record["data"]["timing_s/gen"]
    assert f"timing_s/gen:{gen!r}" in line


def test_a_step_that_never_ends_is_never_logged() -> None:
    run = make_run("hang", 4, cluster=RUN.cluster)
    steps = [json.loads(line)["step"] for line in jsonl_lines(run, plan_run(run))]
    assert steps == [0, 1, 2, 3, 4, 5]


def test_files_hold_the_lines(tmp_path: Path) -> None:
    write_console_log(tmp_path / "train.log", RUN, plan_run(RUN, 2))
    write_jsonl_log(tmp_path / "train.jsonl", RUN, plan_run(RUN, 2))
    text = (tmp_path / "train.log").read_text(encoding="utf-8")
    assert "Training Progress:   0%|          | 1/800 [" in text
    assert len((tmp_path / "train.jsonl").read_text().splitlines()) == 3
