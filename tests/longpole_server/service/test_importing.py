from pathlib import Path

import pytest

from longpole_server.errors import BadRequestError, UnreadableLogError
from longpole_server.importers import LogSource, check_run_id, make_run_id, pack
from longpole_server.service.importing import LogImporter
from support.server_service import ServiceBench

SAMPLES = Path(__file__).parents[2] / "data"
MODIFIED_NS = 1_700_000_000_000_000_000
VALIDATION_SCORE = "val-core/openai/gsm8k/acc/mean@1"


def test_a_log_becomes_a_run_and_again_changes_nothing(bench: ServiceBench):
    importer = LogImporter(bench.writer, bench.closer, bench.reader)
    file = SAMPLES / "verl_console_long_tail.log"

    def load() -> tuple[str, list[object]]:
        imported = importer.import_log(file, file.name, None, MODIFIED_NS)
        bench.derive()
        bench.derive()
        steps = bench.service.list_steps(imported.run_id)
        assert {step.step for step in steps} == set(imported.steps)
        return imported.run_id, [(step.step, step.duration_s, step.start_ns) for step in steps]

    run_id, steps = load()
    assert run_id == "import/verl_console_long_tail"
    run = bench.service.get_run(run_id)
    assert run.summary.state == "imported"
    assert run.summary.time_estimated
    assert run.summary.open_stage is None
    assert (run.summary.mode, run.summary.mode_source) == ("sync", "inferred")
    assert (run.summary.first_step, run.summary.num_steps) == (1, 8)
    warm_up = bench.service.diagnose(run_id).excluded
    assert [excluded.step for excluded in warm_up] == [1]
    assert [source.kind for source in run.sources] == ["import"]
    points = bench.service.get_metric(run_id, "timing_s/gen").points
    assert load() == (run_id, steps)
    assert bench.service.get_metric(run_id, "timing_s/gen").points == points
    closed = [step for step in bench.service.list_steps(run_id) if step.closed_by]
    assert max(step.end_ns or 0 for step in closed) == MODIFIED_NS


def test_two_logs_of_one_name_are_not_mixed(bench: ServiceBench) -> None:
    importer = LogImporter(bench.writer, bench.closer, bench.reader)
    first, second = (
        SAMPLES / f"verl_console_{name}.log" for name in ("long_tail", "update_inefficient")
    )
    importer.import_log(first, "same/train.log", None, MODIFIED_NS)
    importer.import_log(first, "same/train.log", None, MODIFIED_NS)
    with pytest.raises(BadRequestError, match="another log of the name") as refused:
        importer.import_log(second, "other/train.log", None, MODIFIED_NS)
    assert "--run" in (refused.value.hint or "")
    assert importer.import_log(second, "other/train.log", "mine", MODIFIED_NS).run_id == "mine"
    bench.derive()
    bench.derive()
    assert [step.step for step in bench.service.list_steps("import/train")] == list(range(1, 9))


def test_a_validation_before_training_is_not_listed_as_an_open_step(bench: ServiceBench):
    importer = LogImporter(bench.writer, bench.closer, bench.reader)
    # The log begins with a validation as step 0.
    file = SAMPLES / "verl_console_long_tail.log"
    imported = importer.import_log(file, file.name, "validated", MODIFIED_NS)
    bench.derive()
    bench.derive()
    steps = bench.service.list_steps("validated")
    assert [step.step for step in steps] == list(range(1, 9)) == sorted(imported.steps)
    assert all(step.closed_by is not None for step in steps)
    # Its scores are still there.
    scores = [
        point
        for point in bench.service.get_metric("validated", VALIDATION_SCORE).points
        if point[0] == 0
    ]
    assert len(scores) == 1


def test_a_binary_file_is_refused_and_leaves_no_run(bench: ServiceBench, tmp_path: Path):
    file = tmp_path / "model.bin"
    file.write_bytes(b"\x00\x01" * 100)
    before = len(bench.service.list_runs())
    with pytest.raises(UnreadableLogError):
        LogImporter(bench.writer, bench.closer, bench.reader).import_log(
            file, file.name, None, MODIFIED_NS
        )
    assert len(bench.service.list_runs()) == before


@pytest.mark.parametrize(
    "run_id",
    ["a/steps", "a/steps/3", "a/trajectories/x", "diagnosis", "a/alerts/replay", "a\nb", "x" * 999],
)
def test_ids_that_cannot_be_told_from_routes_are_refused(run_id: str):
    with pytest.raises(BadRequestError):
        check_run_id(run_id)


@pytest.mark.parametrize("run_id", ["import/train", "a/steps-of-mine", "verl/gsm8k", "stepsize"])
def test_ordinary_ids_are_taken(run_id: str):
    check_run_id(run_id)


@pytest.mark.parametrize(
    ("name", "run_id"),
    [
        ("train.log", "import/train"),
        ("metrics.jsonl", "import/metrics_"),
        ("a b.c.log", "import/a b.c"),
        ("", "import/log"),
    ],
)
def test_default_ids_are_made_from_the_files_stem(name: str, run_id: str):
    assert make_run_id(name) == run_id
    check_run_id(run_id)


LOGS = SAMPLES / "logs"


@pytest.mark.parametrize(
    ("name", "num_steps"),
    [("areal_console.log", 2), ("roll_console.log", 3), ("skyrl_console.log", 2)],
)
def test_every_step_of_an_imported_log_is_closed(bench: ServiceBench, name: str, num_steps: int):
    importer = LogImporter(bench.writer, bench.closer, bench.reader)
    importer.import_log(LOGS / name, name, name, MODIFIED_NS)
    bench.derive()
    bench.derive()
    steps = bench.service.list_steps(name)
    assert len(steps) == num_steps
    assert all(step.closed_by == "metrics" for step in steps)
    assert all(step.stages for step in steps)


def test_a_log_with_times_lies_where_they_say(bench: ServiceBench):
    importer = LogImporter(bench.writer, bench.closer, bench.reader)
    importer.import_log(LOGS / "prime_rl_trainer.jsonl", "m.jsonl", "timed", MODIFIED_NS)
    bench.derive()
    bench.derive()
    first, second = bench.service.list_steps("timed")
    assert first.end_ns == 1_795_970_472_400_000_000
    assert second.end_ns == 1_795_970_543_500_000_000
    assert not bench.service.get_run("timed").summary.time_estimated


def test_an_archive_is_the_logs_of_one_run(bench: ServiceBench, tmp_path: Path):
    importer = LogImporter(bench.writer, bench.closer, bench.reader)
    names = ("slime_console.log", "vllm_engine.log")
    archive = tmp_path / "logs.tar"
    with archive.open("wb") as stream:
        pack([LogSource.of_file(LOGS / name) for name in names], stream)
    imported = importer.import_log(archive, "slime_console.log", None, MODIFIED_NS)
    assert imported.run_id == "import/slime_console"
    bench.derive()
    bench.derive()
    assert [step.step for step in bench.service.list_steps(imported.run_id)] == [0, 1]
