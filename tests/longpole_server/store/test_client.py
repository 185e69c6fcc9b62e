import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from longpole_server.errors import ConfigError, StoreError, StoreLimitError
from longpole_server.store.client import (
    EMBEDDED_OPTIONS,
    READ_SETTINGS,
    Client,
    StoreConfig,
    connect,
)
from support.store_opening import OpenedStore


class FakeDriver:
    """Stands in for the driver where the engine must not run."""

    def raw_query(self, sql: str, parameters: dict[str, Any], fmt: str) -> bytes:
        raise AssertionError(sql, parameters, fmt)

    def close(self) -> None:
        pass


class DirtyDriver:
    """Every answer is something else than was asked for."""

    def raw_query(self, sql: str, parameters: dict[str, Any] | None = None, fmt: str = "") -> bytes:
        return b"left over"


def test_a_configuration_names_one_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        StoreConfig()
    with pytest.raises(ConfigError):
        StoreConfig(directory=tmp_path, url="http://127.0.0.1:8123")


def test_the_engine_takes_its_options(opened: OpenedStore) -> None:
    answer = opened.client.query(
        "SELECT name, toInt64(value) AS value FROM system.server_settings "
        "WHERE name IN {names:Array(String)}",
        {"names": [*EMBEDDED_OPTIONS, "max_server_memory_usage"]},
    )
    values = {row["name"]: row["value"] for row in answer.to_pylist()}
    assert values == {**EMBEDDED_OPTIONS, "max_server_memory_usage": 3 << 30}


@pytest.mark.parametrize(
    ("limits", "sql"),
    [
        ({"max_memory_usage": 4_000_000}, "SELECT groupArray(number) FROM numbers(10000000)"),
        (
            {"max_execution_time": 1, "max_block_size": 1},
            "SELECT sum(sleepEachRow(0.5)) FROM numbers(20)",
        ),
    ],
)
def test_a_query_that_takes_more_than_it_may_is_told_from_a_store_that_fails(
    opened: OpenedStore, limits: dict[str, int], sql: str
) -> None:
    client = opened.store.new_limited_client(limits)
    try:
        with pytest.raises(StoreLimitError):
            client.query(sql)
        with pytest.raises(StoreError) as failed:
            client.query("SELECT * FROM nowhere")
        assert not isinstance(failed.value, StoreLimitError)
    finally:
        client.close()


def test_hours_begin_where_utcs_do_wherever_the_machine_is(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from longpole_server.store import StoreConfig, open_store\n"
        "store = open_store(StoreConfig(directory=Path(sys.argv[1])))\n"
        "client = store.new_reader_client()\n"
        "hour = 'toStartOfHour(fromUnixTimestamp64Nano(1800000000000000001))'\n"
        "print(client.query(f'SELECT toUnixTimestamp({hour})').column(0)[0])\n"
        "client.close(); store.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store")],
        # Half an hour off, as India is.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TZ": "Asia/Kolkata"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1800000000\n"


def test_a_reader_has_its_limits(opened: OpenedStore) -> None:
    answer = opened.client.query(
        "SELECT name, toInt64(value) AS value FROM system.settings "
        "WHERE name IN {names:Array(String)}",
        {"names": list(READ_SETTINGS)},
    )
    assert {row["name"]: row["value"] for row in answer.to_pylist()} == READ_SETTINGS


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO run_ends (run_id) VALUES ('x')",
        "CREATE TABLE x (a Int8) ENGINE = Memory",
        "DROP TABLE run_ends",
        "ALTER TABLE run_ends DELETE WHERE 1",
        "TRUNCATE TABLE run_ends",
        "SET readonly = 0",
        "SELECT 1 SETTINGS max_memory_usage = 0",
        "SELECT * FROM file('/etc/hostname', 'LineAsString')",
        "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
    ],
)
def test_a_reader_changes_nothing_and_reaches_nothing(opened: OpenedStore, sql: str) -> None:
    with pytest.raises(StoreError, match="READONLY"):
        opened.client.command(sql)


def test_bad_sql_is_a_store_error_without_a_stack_trace(opened: OpenedStore) -> None:
    with pytest.raises(StoreError, match="query failed") as raised:
        opened.client.query("SELECT missing FROM run_ends")
    assert "Stack trace" not in raised.value.message


def test_a_runaway_query_is_stopped(opened: OpenedStore) -> None:
    with pytest.raises(StoreError, match="MEMORY_LIMIT_EXCEEDED"):
        opened.client.query("SELECT groupArray(number) FROM numbers(1000000000)")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT number, throwIf(number = 300000) FROM numbers(1000000)",
        "SELECT groupArray(number) FROM numbers(1000000000)",
    ],
)
def test_what_a_failed_query_put_out_is_not_in_the_next_answer(
    opened: OpenedStore, sql: str
) -> None:
    for _ in range(2):
        with pytest.raises(StoreError):
            opened.client.query(sql)
        assert opened.client.query("SELECT 'x' AS text").to_pylist() == [{"text": "x"}]


def test_a_connection_that_stays_dirty_says_so() -> None:
    driver: Any = DirtyDriver()
    client = Client(driver)
    with pytest.raises(StoreError, match="query failed"):
        client.query("SELECT 2")
    with pytest.raises(StoreError, match="does not recover"):
        client.query("SELECT 2")


def test_text_parameters_are_bound_not_formatted(opened: OpenedStore) -> None:
    text = "'; DROP TABLE run_ends; -- \\ \" \0 {x:Int8} ü"
    answer = opened.client.query("SELECT {text:String} AS text", {"text": text})
    assert answer.to_pylist() == [{"text": text}]


def test_an_answer_without_rows_has_its_columns(opened: OpenedStore) -> None:
    answer = opened.client.query("SELECT run_id, attempt FROM run_ends WHERE run_id = 'nobody'")
    assert answer.column_names == ["run_id", "attempt"]
    assert answer.num_rows == 0


def test_an_unreachable_server_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="opening failed"):
        connect(StoreConfig(url="http://127.0.0.1:1"), {})


def test_a_forked_child_is_told_instead_of_hanging() -> None:
    driver: Any = FakeDriver()
    client = Client(driver)
    child = os.fork()
    if child == 0:
        try:
            client.query("SELECT 1")
        except StoreError:
            os._exit(7)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7


def test_the_same_token_inserts_once_and_another_inserts_again(opened: OpenedStore) -> None:
    rows = pa.table({"host": ["same"], "ts_ns": pa.array([1], pa.timestamp("ns", "UTC"))})
    writing = opened.store._client
    for token in ("one", "one", "two"):
        writing.insert("host_samples", rows, token)
    assert opened.count("host_samples", "host = 'same'", final=False) == 2
