"""Every format is known by its content and read whole, with the framework's own figures."""

from pathlib import Path

import pytest

from longpole_server.errors import UnreadableLogError
from longpole_server.importers import LogSource, LogSummary, import_facts, read_steps

LOGS = Path(__file__).parents[2] / "data" / "logs"

# File, format, framework, mode, numbers of the steps, seconds of the first, of its stages.
CASES: list[tuple[str, str, str, str | None, list[int], float, dict[str, float]]] = [
    (
        "slime_console.log",
        "slime_console",
        "slime",
        None,
        [0, 1],
        106.0,
        {"gen": 60.5, "ref": 5.0, "old_log_prob": 6.0, "update_actor": 28.0},
    ),
    (
        "openrlhf_console.log",
        "openrlhf_console",
        "openrlhf",
        "sync",
        [1, 2],
        87.0,
        {"gen": 41.75, "make_experience": 12.5, "update_actor": 30.25, "update_weights": 2.5},
    ),
    (
        "nemo_rl_console.log",
        "nemo_rl_console",
        "nemo_rl",
        "sync",
        [1, 2, 3],
        66.55,
        {"gen": 32.52, "update_actor": 17.1, "old_log_prob": 8.4, "update_weights": 3.9},
    ),
    (
        "areal_console.log",
        "areal_console",
        "areal",
        "separate_async",
        [1, 2],
        72.2,
        {"trainer_wait": 41.2, "old_log_prob": 5.5, "update_actor": 22.0, "update_weights": 3.5},
    ),
    (
        "areal_trace.jsonl",
        "areal_trace",
        "areal",
        None,
        [0, 1],
        72.2,
        {"gen": 41.2, "old_log_prob": 5.5, "update_actor": 22.0, "update_weights": 3.5},
    ),
    ("trl_console.log", "trl_console", "trl", None, [1, 2, 3], 20.1, {}),
    ("trainer_state.json", "trainer_state", "trl", None, [10, 20, 30], 20.1, {}),
    (
        "skyrl_console.log",
        "skyrl_console",
        "skyrl",
        "sync",
        [1, 2],
        56.0,
        {"gen": 31.25, "update_actor": 14.5, "update_weights": 3.0, "old_log_prob": 6.0},
    ),
    (
        "roll_console.log",
        "roll_console",
        "roll",
        "separate_async",
        [0, 1, 2],
        90.25,
        {"trainer_wait": 48.0, "ref": 5.0, "old_log_prob": 6.0, "update_actor": 20.0},
    ),
    (
        "roll_agentic_console.log",
        "roll_console",
        "roll",
        None,
        [0],
        80.0,
        {"gen": 40.0, "ref": 5.0, "old_log_prob": 6.0, "update_actor": 20.0},
    ),
    ("prime_rl_trainer.log", "prime_rl_console", "prime_rl", None, [1, 2, 3], 72.0, {}),
    ("prime_rl_trainer_old.log", "prime_rl_console", "prime_rl", None, [1, 2], 72.0, {}),
    (
        "prime_rl_trainer.jsonl",
        "flat_jsonl",
        "prime_rl",
        "separate_async",
        [1, 2],
        72.0,
        {"trainer_wait": 30.0, "update_actor": 36.0, "update_weights": 4.0},
    ),
    ("history.csv", "csv_table", "verl", "sync", [1, 2], 71.5, {"gen": 40.0}),
    ("wandb_chart.csv", "csv_table", "verl", "sync", [1, 2], 71.5, {}),
    ("wandb_verl.wandb", "wandb_run", "verl", "sync", [1, 2, 3, 4, 5], 56.0, {"gen": 41.0}),
    ("wandb_trl.wandb", "wandb_run", "trl", None, [10, 20, 30, 40], 22.0, {}),
    ("tensorboard", "event_file", "verl", "sync", [1, 2, 3, 4, 5], 56.0, {"gen": 41.0}),
    (
        "mlflow_run",
        "mlflow_run",
        "skyrl",
        "sync",
        [1, 2, 3, 4, 5],
        51.0,
        {"gen": 31.0, "update_actor": 10.5, "update_weights": 4.0},
    ),
]


@pytest.mark.parametrize(
    ("name", "format_", "system", "mode", "steps", "seconds", "stages"),
    CASES,
    ids=[case[0] for case in CASES],
)
def test_a_format_is_read_whole(
    name: str,
    format_: str,
    system: str,
    mode: str | None,
    steps: list[int],
    seconds: float,
    stages: dict[str, float],
) -> None:
    source = LogSource.of_file(LOGS / name)
    summary = LogSummary()
    list(read_steps(source, summary))
    facts = import_facts(source, "import/x")
    first = facts.steps[0].step
    measured = {stage.stage: pytest.approx(stage.exclusive_s) for stage in first.stages}
    assert summary.format == format_
    assert summary.num_unreadable == 0
    assert (facts.run.system, facts.run.mode) == (system, mode)
    assert [fact.step.step for fact in facts.steps] == steps
    assert first.duration_s == pytest.approx(seconds)
    assert {name: measured.get(name) for name in stages} == stages


@pytest.mark.parametrize("name", [case[0] for case in CASES if "." in case[0]])
def test_the_name_of_a_file_does_not_matter(name: str) -> None:
    expected, found = LogSummary(), LogSummary()
    body = (LOGS / name).read_bytes()
    renamed = list(read_steps(LogSource.of_bytes("x.bin", body, 0), found))
    named = list(read_steps(LogSource.of_file(LOGS / name), expected))
    assert found.format == expected.format
    assert [step.scalars for step in renamed] == [step.scalars for step in named]


@pytest.mark.parametrize(
    "name", [case[0] for case in CASES if case[0].endswith(("console.log", "old.log"))]
)
def test_what_stands_before_the_first_step_does_not_hide_the_format(name: str) -> None:
    noise = b"(raylet) INFO worker started\nLoading shards: 100%|####| 4/4 [00:01<00:00]\n" * 3000
    body = noise + (LOGS / name).read_bytes()
    assert list(read_steps(LogSource.of_bytes("log", body, 0), LogSummary())) == list(
        read_steps(LogSource.of_bytes("log", (LOGS / name).read_bytes(), 0), LogSummary())
    )


def test_a_file_that_fits_nothing_is_refused_with_what_would_fit() -> None:
    source = LogSource.of_bytes("notes.txt", b"nothing\nof interest\n", 0)
    with pytest.raises(UnreadableLogError, match="no training step in any known form") as caught:
        import_facts(source, "x")
    for word in ("verl", "slime", "OpenRLHF", "NeMo-RL", "AReaL", "TRL", "SkyRL", "ROLL", "wandb"):
        assert word in caught.value.hint


def test_an_engines_log_alone_asks_for_the_trainers() -> None:
    with pytest.raises(UnreadableLogError, match="7 lines of inference engines") as caught:
        import_facts(LogSource.of_file(LOGS / "vllm_engine.log"), "x")
    assert "trainer's log" in caught.value.hint


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableLogError, match="is a directory"):
        LogSource.of_file(tmp_path)
