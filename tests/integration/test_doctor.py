from pathlib import Path

import pytest

from support.server_process import ServerProcess, run_longpole

pytestmark = pytest.mark.integration


def test_a_server_that_is_well(server: ServerProcess):
    done = run_longpole(
        "doctor", "--server", server.url, "--data-dir", str(server.data_dir),
        # Whoever else runs one on this machine is not looked at.
        "--otlp-http-port", "1", "--otlp-grpc-port", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("ok   server") for line in lines)
    assert any(line.startswith("ok   storage") for line in lines)
    assert any(line.startswith("ok   store ") and "has it open" in line for line in lines)
    assert any(line.startswith("ok   lag ") and "requests wait" in line for line in lines)
    assert any(line.split()[1] == "nvml" for line in lines)
    assert lines[-1] == "Nothing is wrong."


def test_no_server(tmp_path: Path):
    done = run_longpole(
        "doctor", "--server", "http://127.0.0.1:1", "--data-dir", str(tmp_path / "none")
    )
    assert done.returncode == 1
    assert "-> start it by `longpole up`" in done.stdout
    assert run_longpole("doctor", "--server", "nowhere").returncode == 2


def test_sizes_of_tables_by_the_api(server: ServerProcess):
    storage = server.get("/storage")
    assert storage["place"] == str(server.data_dir / "store")
    assert storage["free_bytes"] > 0
    assert {"schema_migrations"} <= {table["table"] for table in storage["tables"]}
    assert all(
        set(table)
        == {"table", "rows", "bytes_on_disk", "bytes_per_row", "oldest_ns", "newest_ns", "keep_s"}
        for table in storage["tables"]
    )
