"""`longpole diagnose`: a log in, a verdict out; anything else is one line and a status."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longpole_server.cli import diagnose
from longpole_sim import SCENARIOS, Cluster, make_run, plan_run
from longpole_sim.verl_log import write_console_log, write_jsonl_log
from support import verl_logs
from support.diagnosis_schema import check_document

DATA = Path(__file__).parents[2] / "data"

VERDICTS = {
    "verl_console_long_tail.log": "rollout.long_tail",
    "verl_console_update_inefficient.log": "update.inefficient",
    "verl_file_balanced.jsonl": "balanced",
    "verl_file_sync_weights.jsonl": "sync.weights",
    # Tiny steps on a CPU: gen waits for a poll of two seconds, and nothing says what is inside.
    "verl_0.9.1_real.jsonl": "rollout.unexplained",
    "verl_0.9.1_real_console.log": "rollout.unexplained",
    "verl_0.9.1_real_validated.jsonl": "rollout.unexplained",
    "verl_0.9.1_real_validated_console.log": "rollout.unexplained",
    # The older trainer, validation every second step as long as a step.
    "verl_0.9.1_real_resumed_console.log": "overhead.outside",
}
# What each generation of trainers says about the same slow rollout.
VERDICT_OF_KIND = {
    **dict.fromkeys(("first", "0.4", "0.5", "0.6", "0.9-v1"), "rollout.unexplained"),
    **dict.fromkeys(("0.7.0", "0.7.1", "0.8", "0.9-v0"), "rollout.long_tail"),
    **dict.fromkeys(("separate_async", "one_step_off", "fully_async"), "async.trainer_starved"),
}
MODES = {"separate_async", "one_step_off", "fully_async"}


def judge(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Diagnose a file and return the document, strictly checked."""
    assert diagnose.main([str(path), "--json"]) == 0
    document = check_document(capsys.readouterr().out)
    assert diagnose.main([str(path)]) == 0
    report = capsys.readouterr().out
    assert max(map(len, report.splitlines())) <= 100
    assert document["verdict"] in report
    return document


def write(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(("name", "verdict"), VERDICTS.items())
def test_the_samples_get_the_verdict_of_the_specification(
    name: str, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = judge(DATA / name, capsys)
    assert document["verdict"] == verdict
    assert document["evidence"]
    assert document["next"]


@pytest.mark.parametrize("critic", [False, True])
@pytest.mark.parametrize("kind", verl_logs.KINDS)
def test_every_generation_of_verl_is_read_for_what_it_means(
    kind: str, critic: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = verl_logs.log_calls(kind, 12, critic=critic)
    style = "rounded" if kind in ("first", "0.4") else "numpy"
    console = judge(
        write(tmp_path / "run.log", verl_logs.console_lines(calls, style=style)), capsys
    )
    assert console["verdict"] == VERDICT_OF_KIND[kind]
    assert console["run"]["mode"] == (kind if kind in MODES else "sync")
    assert console["throughput"]["gpus"] == (None if kind == "first" else verl_logs.GPUS)
    codes = {note["code"] for note in console["data_quality"]}
    assert codes == ({"step.summed"} if kind == "first" else set())
    assert console["window"]["num_judged"] == 11
    assert console["shares"]["unattributed"] < 0.01
    periodic = {"testing", "save_checkpoint"}
    inside = verl_logs.inside_of(kind)
    assert {stage for stage in console["shares"] if stage in periodic} == inside
    jsonl = judge(write(tmp_path / "run.jsonl", verl_logs.jsonl_lines(calls)), capsys)
    if style == "numpy":
        # All but the name is the same in both of verl's formats.
        assert {**jsonl, "run": console["run"]} == console


@pytest.mark.parametrize("write_log", [write_console_log, write_jsonl_log])
@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - {"replica_slow"}))
def test_a_simulated_log_gets_the_verdict_that_its_scenario_names(
    name: str,
    write_log: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = make_run(name, 11, cluster=Cluster(nodes=1, gpus_per_node=8))
    path = tmp_path / "run.log"
    write_log(path, run, plan_run(run, 8))
    document = judge(path, capsys)
    assert document["verdict"] == SCENARIOS[name].verdict, document["summary"]


def test_people_read_ledger_verdict_evidence_and_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert diagnose.main([str(DATA / "verl_console_long_tail.log")]) == 0
    text = capsys.readouterr().out
    assert "VERDICT  rollout.long_tail\nSure     medium" in text
    for heading in ("Where the 210.7 s of a step go", "Proof", "Try first"):
        assert heading in text
    assert "16 GPUs" in text


def test_an_asynchronous_run_is_not_told_to_become_asynchronous(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = verl_logs.log_calls("one_step_off")
    document = judge(write(tmp_path / "run.log", verl_logs.console_lines(calls)), capsys)
    assert document["cause"] == "rollout.long_tail"
    assert not any("synchronous" in look["text"] for look in document["next"])
    # The slowest sample is compared with the generation in the background, not with the wait.
    (row,) = [row for row in document["evidence"] if row["metric"] == "rollout/slowest_of_gen"]
    assert row["value"] == pytest.approx(150.25 * 0.98 / 140, rel=0.01)


def test_stale_samples_without_names_of_a_mode_are_called_ambiguous(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = verl_logs.log_calls("0.9-v1")
    for _, scalars in calls[1:]:
        scalars["training/off_policy/trajectory_staleness_worst/max"] = 2
    document = judge(write(tmp_path / "run.log", verl_logs.console_lines(calls)), capsys)
    assert document["run"]["mode"] is None
    assert "mode.ambiguous" in {note["code"] for note in document["data_quality"]}


def test_nan_and_infinity_never_reach_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = verl_logs.log_calls("0.9-v0")
    names = list(calls[3][1])
    for index, name in enumerate(names):
        if name not in ("timing_s/step", "timing_s/gen"):
            calls[3][1][name] = (float("nan"), float("inf"), float("-inf"))[index % 3]
    document = judge(write(tmp_path / "run.log", verl_logs.console_lines(calls)), capsys)
    assert "value.not_finite" in {note["code"] for note in document["data_quality"]}
    judge(write(tmp_path / "run.jsonl", verl_logs.jsonl_lines(calls)), capsys)


def test_a_resume_that_the_trainer_announces_is_an_attempt_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = judge(DATA / "verl_0.9.1_real_resumed_console.log", capsys)
    assert "run.resumed" in {note["code"] for note in document["data_quality"]}
    assert document["window"] | {"excluded": None} == {
        "from": 1,
        "to": 6,
        "num_judged": 5,
        "excluded": None,
    }


TORN_CALLS = verl_logs.log_calls("0.9-v1", 3)


@pytest.fixture(scope="module")
def whole_steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The steps of the whole log, by format."""
    path = tmp_path_factory.mktemp("whole")
    return {
        suffix: _steps(write(path / f"run{suffix}", lines))
        for suffix, lines in (
            (".log", verl_logs.console_lines(TORN_CALLS)),
            (".jsonl", verl_logs.jsonl_lines(TORN_CALLS)),
        )
    }


def _steps(path: Path) -> list[dict[str, Any]]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert diagnose.main([str(path), "--json"]) == 0
    steps: list[dict[str, Any]] = check_document(out.getvalue())["steps"]
    return steps


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), suffix=st.sampled_from([".log", ".jsonl"]))
def test_a_log_torn_at_any_byte_keeps_its_earlier_steps_and_says_so(
    data: st.DataObject,
    suffix: str,
    tmp_path: Path,
    whole_steps: dict[str, list[dict[str, Any]]],
) -> None:
    lines = (verl_logs.console_lines if suffix == ".log" else verl_logs.jsonl_lines)(TORN_CALLS)
    body = "".join(f"{line}\n" for line in lines).encode()
    at = data.draw(st.integers(0, len(body)), label="at")
    path = tmp_path / f"torn{suffix}"
    path.write_bytes(body[:at])
    num_whole = body[:at].count(b"\n") - 1
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = diagnose.main([str(path), "--json"])
    if status == 2:
        # Only where nothing but validation, or a part of step 1, was left.
        assert num_whole < 1
        return
    document = check_document(out.getvalue())
    assert 0 <= len(document["steps"]) - min(num_whole, 2) <= 2
    by_step = {step["step"]: step for step in document["steps"]}
    for step in whole_steps[suffix]:
        # One that the tear went through has lost nothing that decides about it.
        if step["step"] in by_step and len(by_step) >= 2:
            assert by_step[step["step"]] == step
    torn = {note["code"] for note in document["data_quality"]} & {"line.torn"}
    is_torn = not body[:at].endswith(b"\n")
    if suffix == ".log" or num_whole == body[: at + 1].count(b"\n") - 1:
        assert bool(torn) == is_torn


def test_a_torn_last_line_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (DATA / "verl_console_long_tail.log").read_text("utf-8")
    path = tmp_path / "torn.log"
    path.write_text(whole[: len(whole) - 900], encoding="utf-8")
    document = judge(path, capsys)
    assert "line.torn" in {note["code"] for note in document["data_quality"]}


def test_what_cannot_be_diagnosed_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    binary, empty, noise = tmp_path / "a.bin", tmp_path / "empty.log", tmp_path / "noise.log"
    binary.write_bytes(b"\x00\x01\x02" * 100)
    empty.touch()
    noise.write_text("step:0 - val-core/x/acc/mean@1:0.5\nnothing else\n", encoding="utf-8")
    for target in (binary, empty, noise, tmp_path, tmp_path / "absent.log", Path(os.devnull)):
        assert diagnose.main([str(target)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("longpole diagnose: ")
        assert captured.err.count("\n") == 1


def test_a_run_without_its_server_is_told_what_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert diagnose.main(["team/run-7"]) == 2
    assert capsys.readouterr().err == (
        "longpole diagnose: team/run-7: no such file. A run on a server needs --server URL.\n"
    )


def test_a_server_that_does_not_answer_is_one_line_and_status_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert diagnose.main(["some/run", "--server", "http://127.0.0.1:9"]) == 1
    assert "does not answer" in capsys.readouterr().err
    assert diagnose.main(["some/run", "--server", "ftp://x"]) == 2


COMMAND = [sys.executable, "-m", "longpole.cli", "diagnose"]
LOG = DATA / "verl_console_long_tail.log"


def run_command(
    *arguments: str,
    environment: dict[str, str] | None = None,
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes] | int | None = subprocess.PIPE,
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments],
        env={**os.environ, **(environment or {})},
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
    )


def test_a_log_can_be_piped_in() -> None:
    for target in ("-", "/dev/stdin"):
        with LOG.open("rb") as log, subprocess.Popen(["cat"], stdin=log, stdout=-1) as cat:
            done = run_command(target, "--json", stdin=cat.stdout)
        assert done.returncode == 0, done.stderr
        assert check_document(done.stdout.decode())["verdict"] == "rollout.long_tail"


def test_no_standard_input_is_one_line_and_status_2() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "-"], capture_output=True, timeout=120
    )
    assert done.returncode == 2
    assert done.stderr.decode().strip() == "longpole diagnose: nothing is piped in."


def test_a_terminal_that_knows_only_ascii_gets_a_report() -> None:
    done = run_command(str(LOG), environment={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert "########" in done.stdout.decode("ascii")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line_and_status_1() -> None:
    with Path("/dev/full").open("wb") as full:
        done = run_command(str(LOG), stdout=full)
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "longpole diagnose: the result cannot be written: No space left on device.\n"
    )


def test_a_reader_that_goes_away_is_no_error() -> None:
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as gone:
        gone.wait()
        done = run_command(str(LOG), stdout=gone.stdin)
    assert done.returncode == 0
    assert done.stderr == b""


def test_ctrl_c_while_a_pipe_is_read_leaves_no_traceback(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    command = [*COMMAND, str(fifo)]
    # Opening for writing returns when the command has opened the other end.
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child,
        fifo.open("wb"),
    ):
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=120)
    assert child.returncode == 130
    assert (out, err) == (b"", b"")


def test_json_of_a_file_whose_name_is_no_text_is_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.log")
    path.write_bytes(LOG.read_bytes())
    assert diagnose.main([str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["run"]["name"] == "caf?.log"
    assert document["run"]["run_id"] == "import/caf?"


UPDATE_LOG = str(DATA / "verl_console_update_inefficient.log")


def test_a_log_alone_gets_its_mfu_with_model_and_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--model-config", "Qwen/Qwen2.5-7B-Instruct", "--gpu", "NVIDIA H100 80GB HBM3"]
    assert diagnose.main([UPDATE_LOG, "--json", *named]) == 0
    mfu = check_document(capsys.readouterr().out)["mfu"]
    assert mfu["step"]["source"] == mfu["actor_stage"]["source"] == "computed"
    assert 0 < mfu["step"]["value"] < mfu["actor_stage"]["value"] < 1
    assert diagnose.main([UPDATE_LOG, "--json"]) == 0
    without = check_document(capsys.readouterr().out)["mfu"]["step"]
    assert without["value"] is None
    assert "configuration" in without["reason"]
    assert "GPU's name" in without["reason"]


def test_the_model_configuration_is_read_from_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "mamba"}')
    for source in (path, tmp_path):
        arguments = [UPDATE_LOG, "--json", "--model-config", str(source), "--gpu", "H100"]
        assert diagnose.main(arguments) == 0
        reason = check_document(capsys.readouterr().out)["mfu"]["step"]["reason"]
        assert reason == "no FLOPs formula for model type `mamba`"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpu", "H101"], "the peak rate of 'H101' is not known"),
        (["--model-config", "nobody/knows-7b"], "neither a file nor a well-known model"),
        (["--model-config", __file__], "not a readable JSON file"),
    ],
)
def test_a_model_or_gpu_that_is_not_known_is_refused(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diagnose.main([UPDATE_LOG, *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_threshold_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(DATA / "verl_console_long_tail.log")
    assert diagnose.main([path, "--threshold", "dominance.share=0.9"]) == 0
    assert "VERDICT  balanced" in capsys.readouterr().out
    for word in ("nonsense=1", "dominance.share=x"):
        assert diagnose.main([path, "--threshold", word]) == 2
        assert capsys.readouterr().err.count("\n") == 1
