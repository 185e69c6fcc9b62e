"""The drill: a server with rows, killed; a copy; the copy put back; every row before and after."""

import json
import os
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from longpole_server.app import open_application
from longpole_server.cli.backup import back_up
from longpole_server.cli.restore import restore
from longpole_server.config import Config
from longpole_server.store import StoreConfig, is_of_earlier_release, open_store
from longpole_server.store.migrations import load_migrations
from longpole_server.store.retention import apply_retention, choose_retention, read_retention
from support.fault_disk import fill, small_disk
from support.otlp_builders import T0_NS, gauge, loop, metrics, process, resource, stage, traces
from support.server_process import StartServer, run_longpole
from support.store_counting import count_stored_rows

pytestmark = pytest.mark.integration

RUN_ID = "backed-up"
NOW_S = (time.time_ns() - T0_NS) // 10**9
KEY = {"longpole-batch-id": "agent/boot/1"}


def make_step(step: int) -> bytes:
    start_s = NOW_S - 1_000 + 10.0 * step
    spans = [loop(step, start_s, start_s + 10.0), stage("gen", step, start_s, start_s + 6.0)]
    return traces((process(RUN_ID), spans))


def make_samples() -> bytes:
    points = [
        (NOW_S - 900.0 + second, 0.5, {"hw.id": "GPU-a", "gpu.index": 0}) for second in range(60)
    ]
    return metrics((resource({"host.name": "node-0"}), [gauge("hw.gpu.utilization", points)]))


def test_a_store_on_a_full_disk_is_backed_up_with_what_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    copy, back = tmp_path / "copy", tmp_path / "back"
    with small_disk(tmp_path / "disk", 256 << 20) as disk:
        config = Config(data_dir=disk / "data")
        with open_application(config):
            pass
        with fill(disk).open("rb+") as filler:
            # Room for the journal, and less than the store asks for.
            filler.truncate(filler.seek(0, os.SEEK_END) - (8 << 20))
        with open_application(config) as application:
            application.pipeline.start()
            for step in range(1, 4):
                application.pipeline.accept("traces", make_step(step), f"agent/boot/{step}")
        rows = back_up(config, copy, patience_s=1.0)
        assert rows["stage_spans"] == 0
    assert "copied with the journal" in capsys.readouterr().err
    restored = Config(data_dir=back)
    assert restore(restored, copy) == rows
    with open_application(restored) as application:
        application.closer.start()
        application.pipeline.start()
        assert application.drain(60.0)
    assert count_stored_rows(back)["stage_spans"] == 6


def test_every_row_comes_back(start_server: StartServer, tmp_path: Path):
    first = tmp_path / "first"
    first.mkdir()
    server = start_server(first, "--no-agent")
    path = f"/runs/{RUN_ID}/steps"
    assert server.send("traces", make_step(1), KEY).status_code == 200
    assert server.send("metrics", make_samples()).status_code == 200
    server.wait_for(path, lambda page: len(page["steps"]) == 1)
    copy = tmp_path / "copy"
    refused = run_longpole("backup", str(copy), "--data-dir", str(server.data_dir))
    assert refused.returncode == 1
    assert "holds" in refused.stderr
    for step in range(2, 6):
        assert server.send("traces", make_step(step)).status_code == 200
    server.kill()

    users = server.data_dir / "access.json"
    users.write_text('{"version": 1}')
    done = run_longpole("backup", str(copy), "--data-dir", str(server.data_dir))
    users.unlink()
    assert done.returncode == 0, done.stderr
    before = count_stored_rows(server.data_dir)
    assert before["stage_spans"] == 10
    assert before["gpu_samples"] == 60

    second = tmp_path / "second"
    second.mkdir()
    restored = run_longpole("restore", str(copy), "--data-dir", str(second / "data"))
    assert restored.returncode == 0, restored.stderr
    assert count_stored_rows(second / "data") == before
    # It closes the server to strangers, and the test is one.
    (second / "data" / "access.json").unlink()

    again = start_server(second, "--no-agent")
    steps = again.wait_for(path, lambda page: len(page["steps"]) == 5)["steps"]
    assert [step["step"] for step in steps] == [1, 2, 3, 4, 5]
    # A sender that did not hear of it sends again what the first server took.
    assert again.send("traces", make_step(1), KEY).status_code == 200
    assert again.send("traces", make_step(6)).status_code == 200
    again.wait_for(path, lambda page: len(page["steps"]) == 6)
    assert again.interrupt() == 0
    assert count_stored_rows(second / "data")["otel_traces"] == before["otel_traces"] + 2


def read_kept_s(data_dir: Path) -> Mapping[str, int | None]:
    store = open_store(StoreConfig(directory=data_dir / "store"))
    client = store.new_reader_client()
    try:
        return read_retention(client, store.config)
    finally:
        client.close()
        store.close()


def test_a_backup_lets_no_rows_go_that_its_server_keeps(tmp_path: Path):
    # The server has --retention; who calls the backup does not think of it.
    kept = choose_retention([("gpu_samples", None), ("otel_traces", 86_400 * 900)])
    store = open_store(StoreConfig(directory=tmp_path / "store"))
    apply_retention(store, kept)
    store.close()
    before = read_kept_s(tmp_path)
    back_up(Config(data_dir=tmp_path), tmp_path / "copy")
    assert read_kept_s(tmp_path) == before
    restore(Config(data_dir=tmp_path / "back"), tmp_path / "copy")
    assert read_kept_s(tmp_path / "back") == before


def test_a_store_of_an_earlier_release_is_backed_up_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    # Upgraded first, backed up then: what is put back must be one that the earlier program opens.
    with tarfile.open(Path(__file__).parents[1] / "data" / "upgrade" / "store.tar.xz") as kept:
        kept.extractall(tmp_path / "data", filter="data")
    newest = load_migrations()[-1].number
    config, back = Config(data_dir=tmp_path / "data"), Config(data_dir=tmp_path / "back")
    rows = back_up(config, tmp_path / "copy")
    assert "of an earlier release" in capsys.readouterr().err
    assert rows["schema_migrations"] < newest
    assert restore(back, tmp_path / "copy") == rows
    assert is_of_earlier_release(StoreConfig(directory=back.data_dir / "store"))
    counted = count_stored_rows(back.data_dir)
    assert counted["schema_migrations"] == newest
    assert counted["stage_spans"] == rows["stage_spans"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["backup"], "TO"),
        (["backup", "{empty}/new", "--data-dir", "{empty}"], "there is no store"),
        (["restore", "{empty}", "--data-dir", "{empty}/data"], "is no backup"),
        (["restore", "{empty}/missing"], "is no backup"),
        (["backup", "x", "--clickhouse-url", "http://127.0.0.1:1"], "ClickHouse's own"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(tmp_path: Path, words: list[str], message: str):
    done = run_longpole(*(word.replace("{empty}", str(tmp_path)) for word in words))
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_a_store_is_not_overwritten(tmp_path: Path):
    store = open_store(StoreConfig(directory=tmp_path / "store"))
    store.close()
    copy = tmp_path / "copy"
    assert run_longpole("backup", str(copy), "--data-dir", str(tmp_path)).returncode == 0
    done = run_longpole("restore", str(copy), "--data-dir", str(tmp_path))
    assert done.returncode == 2
    assert "exists" in done.stderr
    assert run_longpole("backup", str(copy), "--data-dir", str(tmp_path)).returncode == 2


def test_half_a_store_is_not_served_and_the_restore_can_be_repeated(tmp_path: Path):
    open_store(StoreConfig(directory=tmp_path / "store")).close()
    copy, second = tmp_path / "copy", tmp_path / "second"
    assert run_longpole("backup", str(copy), "--data-dir", str(tmp_path)).returncode == 0
    manifest = copy / "manifest.json"
    whole = manifest.read_text()
    manifest.write_text(json.dumps(json.loads(whole) | {"rows": {"steps": 1}}))
    # As a kill amid it leaves things: some of it is there.
    failed = run_longpole("restore", str(copy), "--data-dir", str(second))
    assert failed.returncode == 1
    assert (second / "store").is_dir()
    refused = run_longpole("backup", str(tmp_path / "other"), "--data-dir", str(second))
    assert refused.returncode == 1
    assert "longpole restore again" in refused.stderr
    manifest.write_text(whole)
    repeated = run_longpole("restore", str(copy), "--data-dir", str(second))
    assert repeated.returncode == 0, repeated.stderr
    assert count_stored_rows(second) == json.loads(whole)["rows"]
