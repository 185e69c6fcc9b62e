"""The store on a ClickHouse reached over HTTP: the same rows, whatever the network does."""

import itertools
import shutil
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from longpole.spool import Spool
from longpole_server.errors import ConfigError, StoreError
from longpole_server.ingest.pipeline import Pipeline
from longpole_server.ingest.signals import Signal
from longpole_server.model.records import Records
from longpole_server.read import open_reader
from longpole_server.read.free_queries import FreeQuery, QueryLimits, open_free_queries
from longpole_server.store import (
    Client,
    Missing,
    Store,
    StoreConfig,
    find_missing,
    open_store,
    open_store_to_read,
)
from longpole_server.store.location import TlsConfig
from support.agent_waiting import wait_until
from support.certificates import make_certificates
from support.clickhouse_front import ClickHouseFront
from support.store_records import make_batch

USER, PASSWORD = "longpole", "p:s%w?rd"
ROWS = 8
TABLES = ("gpu_samples", "trajectories", "metric_points", "stage_spans", "otel_traces")


@pytest.fixture
def front(tmp_path: Path) -> Generator[ClickHouseFront]:
    front = ClickHouseFront(tmp_path, USER, PASSWORD).start()
    yield front
    front.kill()


def config_of(front: ClickHouseFront, **more: object) -> StoreConfig:
    fields = {"url": front.url, "user": USER, "password": PASSWORD, "start_timeout_s": 120.0}
    return StoreConfig(**{**fields, **more})  # pyright: ignore[reportArgumentType]


@pytest.fixture
def store(front: ClickHouseFront) -> Generator[Store]:
    store = open_store(config_of(front))
    yield store
    store.close()


def count_rows(store: Store) -> dict[str, int]:
    client = store.new_reader_client()
    try:
        counts = {table: _count(client, f"SELECT count() FROM {table}") for table in TABLES}
        rolled = "SELECT sum(utilization_ratio_count) FROM gpu_samples_10s"
        return {**counts, "rolled up": _count(client, rolled)}
    finally:
        client.close()


def _count(client: Client, sql: str) -> int:
    return int(client.query(sql).column(0)[0].as_py())


def expect(num_batches: int) -> dict[str, int]:
    return dict.fromkeys((*TABLES, "rolled up"), num_batches * ROWS)


def test_batches_are_stored_once_and_read_back(store: Store):
    for number in (0, 1, 0, 2, 1):
        store.writer.write(make_batch(number, ROWS), f"batch-{number}")
    assert count_rows(store) == expect(3)
    reader = open_reader(store)
    assert [row.start.run_id for row in reader.list_attempts()] == ["run"]
    reader.close()


def test_the_schema_is_made_once(front: ClickHouseFront, store: Store):
    store.writer.write(make_batch(0, ROWS), "batch")
    open_store(config_of(front)).close()
    assert count_rows(store) == expect(1)


def test_peoples_own_queries_are_checked_there_too(store: Store):
    store.writer.write(make_batch(0, ROWS), "batch")
    queries = open_free_queries(store, QueryLimits())
    asked = FreeQuery(
        "SELECT count() FROM trajectories WHERE run_id = {run:String}", {"run": "run"}
    )
    assert queries.answer(asked).body == b"8\n"
    with pytest.raises(StoreError, match=r"UNKNOWN_TABLE"):
        queries.answer(FreeQuery("SELECT * FROM missing"))
    queries.close()


class Numbers:
    """Makes a batch of records of a number."""

    def normalize(self, signal: Signal, body: bytes, received_ns: int, into: Records) -> None:
        batch = make_batch(int(body), ROWS)
        for name in Records.__slots__:
            getattr(into, name).extend(getattr(batch, name))

    def normalize_many(
        self, signal: Signal, requests: Sequence[tuple[bytes, int]], into: Records
    ) -> bool:
        return False


def run_pipeline(directory: Path, store: Store) -> tuple[Spool, Pipeline]:
    spool = Spool(directory / "journal", max_bytes=64 << 20, drop_oldest=False)
    pipeline = Pipeline(
        spool,
        Numbers(),
        store.writer.write,
        lambda records: None,
        state_dir=directory / "journal-state",
        batch_interval_s=0.01,
        bulk_interval_s=0.01,
    )
    pipeline.start()
    return spool, pipeline


@pytest.mark.parametrize("kind", ["status", "reset", "reset_after", "status_after", "slow"])
def test_what_is_acknowledged_is_stored_once_whatever_fails(
    front: ClickHouseFront, store: Store, tmp_path: Path, kind: str
):
    """What fails after the work is the worst: the rows are in, and nobody was told so."""
    spool, pipeline = run_pipeline(tmp_path, store)
    with closing(spool), closing(pipeline):
        for number in range(20):
            if number in {0, 10}:
                front.fail(kind, 2, "INSERT INTO", delay_s=0.3)
            pipeline.accept("traces", str(number).encode())
        assert pipeline.drain(120.0)
        if kind != "slow":
            assert pipeline.stats.num_write_failures > 0
        assert pipeline.stats.num_lost_requests == 0
    assert count_rows(store) == expect(20)


def test_the_journal_waits_while_the_database_is_away(
    front: ClickHouseFront, store: Store, tmp_path: Path
):
    spool, pipeline = run_pipeline(tmp_path, store)
    numbers = itertools.count()
    with closing(spool), closing(pipeline):
        for _ in range(3):
            for _ in range(5):
                pipeline.accept("traces", str(next(numbers)).encode())
            front.kill()
            for _ in range(5):
                pipeline.accept("traces", str(next(numbers)).encode())
            front.start()
        assert pipeline.drain(120.0)
    assert count_rows(store) == expect(30)


def test_a_database_that_dies_amid_inserts_loses_and_repeats_nothing(
    front: ClickHouseFront, store: Store, tmp_path: Path
):
    spool, pipeline = run_pipeline(tmp_path, store)
    with closing(spool), closing(pipeline):
        for number, delay_s in enumerate((0.0, 0.003, 0.01)):
            front.fail("die", 1, "INSERT INTO", delay_s=delay_s)
            pipeline.accept("traces", str(number).encode())
            front.wait_for_end()
            front.start()
        assert pipeline.drain(120.0)
        assert pipeline.stats.num_lost_requests == 0
    assert count_rows(store) == expect(3)


def test_a_reader_works_again_after_the_database_was_away(front: ClickHouseFront, store: Store):
    store.writer.write(make_batch(0, ROWS), "batch")
    reader = open_reader(store)
    assert len(reader.list_attempts()) == 1
    front.kill()
    with pytest.raises(StoreError):
        reader.list_attempts()
    front.start()
    assert len(reader.list_attempts()) == 1
    reader.close()


def test_a_database_that_is_not_there_yet_is_waited_for(tmp_path: Path):
    front = ClickHouseFront(tmp_path, USER, PASSWORD).start()
    front.kill()
    wait_until(lambda: _is_refused(lambda: open_store(config_of(front, start_timeout_s=0.0))))
    front.start()
    open_store(config_of(front)).close()
    front.kill()


def _is_refused(attempt: Callable[[], object]) -> bool:
    with pytest.raises(StoreError):
        attempt()
    return True


def test_a_wrong_password_is_said_at_once(front: ClickHouseFront):
    with pytest.raises(StoreError, match="Authentication failed"):
        open_store(config_of(front, password="wrong", start_timeout_s=3600.0))


def test_a_clickhouse_that_takes_connections_and_never_answers_is_looked_at_for_seconds():
    """A hung node was waited for six hours, in which nothing was said and nothing could end it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = StoreConfig(url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        missing = find_missing(config, timeout_s=1)
    assert missing is not None
    assert missing.what == "ClickHouse does not answer"


def test_a_web_waits_for_what_time_mends_and_not_for_a_right_it_lacks(front: ClickHouseFront):
    """It ended when ClickHouse had no memory for a moment, or a shard was away."""
    errors = {
        "Code: 241. DB::Exception: (total) memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)": True,
        "Code: 202. DB::Exception: Too many simultaneous queries. (TOO_MANY_...)": True,
        "Code: 279. DB::Exception: All connection tries failed. (ALL_CONNECTION_TRIES_...)": True,
        "Code: 497. DB::Exception: Not enough privileges. (ACCESS_DENIED)": False,
        "Code: 192. DB::Exception: There is no user `x`. (UNKNOWN_USER)": False,
    }
    for text, is_waited_for in errors.items():
        front.fail("error", 1, text=text)
        if is_waited_for:
            missing = find_missing(config_of(front))
            assert missing is not None
            assert missing.what == "ClickHouse answers with an error"
            assert text[:9] in missing.detail
        else:
            with pytest.raises(StoreError, match=text[:9]):
                find_missing(config_of(front))
    with pytest.raises(StoreError, match="Authentication failed"):
        find_missing(config_of(front, password="wrong"))
    assert find_missing(config_of(front)) == Missing("there are no tables yet")
    with pytest.raises(StoreError, match="there are no tables yet"):
        open_store_to_read(config_of(front))
    open_store(config_of(front)).close()
    assert find_missing(config_of(front)) is None
    open_store_to_read(config_of(front)).close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make certificates with")
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def secure_front(tmp_path: Path, certificates: Path) -> Generator[ClickHouseFront]:
    front = ClickHouseFront(tmp_path, USER, PASSWORD, certificates=certificates).start()
    yield front
    front.kill()


def test_both_sides_show_certificates(secure_front: ClickHouseFront, certificates: Path):
    tls = TlsConfig(
        ca_file=certificates / "ca.pem",
        certificate_file=certificates / "client.crt",
        key_file=certificates / "client.key",
    )
    store = open_store(config_of(secure_front, tls=tls))
    store.writer.write(make_batch(0, ROWS), "batch")
    assert count_rows(store) == expect(1)
    store.close()


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_certificates_that_do_not_fit_are_refused(
    secure_front: ClickHouseFront, certificates: Path, tmp_path: Path
):
    other = tmp_path / "other"
    other.mkdir()
    make_certificates(other)
    mine = certificates / "client.pem"
    for tls in (
        TlsConfig(certificate_file=mine),
        TlsConfig(ca_file=other / "ca.pem", certificate_file=mine),
        TlsConfig(ca_file=certificates / "ca.pem"),
        TlsConfig(ca_file=certificates / "ca.pem", certificate_file=other / "client.pem"),
    ):
        with pytest.raises(StoreError):
            open_store(config_of(secure_front, tls=tls, start_timeout_s=0.0))
    anyway = TlsConfig(verify=False, certificate_file=mine)
    open_store(config_of(secure_front, tls=anyway)).close()


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "clickhouse://host"},
        {"url": "http://"},
        {"url": "http://host:x"},
        {"url": "http://host", "database": "a.b"},
        {"url": "http://host", "cluster": "it's"},
        {"url": "http://host", "tls": TlsConfig(verify=False)},
        {"url": "https://host", "tls": TlsConfig(ca_file=Path("/missing"))},
    ],
)
def test_what_is_no_place_is_refused(fields: dict[str, object]):
    with pytest.raises(ConfigError):
        StoreConfig(**fields)  # pyright: ignore[reportArgumentType]


def test_a_place_is_named_without_its_secrets():
    config = StoreConfig(url="https://user:secret@host:8443/?x=secret", password="secret")
    assert config.place == "https://host:8443/"
    assert "password" not in repr(config)
