from pathlib import Path

import pytest

from longpole_server.read.pool import ClientPool
from longpole_server.service.storage import Storage
from longpole_server.store import StoreConfig, open_store
from support.cluster_of_one import make_cluster_of_one
from support.store_records import BASE_NS, SECOND_NS, make_batch


@pytest.mark.parametrize("is_cluster", [False, True])
def test_sizes_times_and_how_long_rows_stay(tmp_path: Path, is_cluster: bool):
    config = make_cluster_of_one(tmp_path) if is_cluster else StoreConfig(directory=tmp_path)
    store = open_store(config)
    store.writer.write(make_batch(0, rows=8), "batch")
    pool = ClientPool(store.new_reader_client, 1)
    report = Storage(pool, config, {"gpu_samples": 60}).report()
    assert report.place == str(tmp_path)
    assert report.free_bytes is not None
    assert report.free_bytes > 0
    tables = {table.name: table for table in report.tables}
    sizes = [table.bytes_on_disk for table in report.tables]
    assert sizes == sorted(sizes, reverse=True)
    samples = tables["gpu_samples"]
    assert samples.rows == 8
    assert samples.bytes_per_row == samples.bytes_on_disk / 8
    assert (samples.oldest_ns, samples.newest_ns) == (BASE_NS, BASE_NS + 7 * SECOND_NS)
    assert samples.keep_s == 60
    assert tables["trajectories"].keep_s is None
    assert tables["schema_migrations"].oldest_ns is None
    assert "engine_samples" not in tables
    pool.close()
    store.close()
