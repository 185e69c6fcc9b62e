import pytest

from longpole_server.model.facts import ObjectStoreFacts
from longpole_server.model.records import HostSample, Records
from support.store_opening import OpenedStore

BASE = 1_700_000_000_000_000_000
S = 10**9


def write(opened: OpenedStore, host: str, totals: list[tuple[int, int | None, int | None]]) -> None:
    samples = [
        HostSample(
            host,
            BASE + at_s * S,
            object_store_used_bytes=90,
            object_store_total_bytes=100,
            object_store_fallback_bytes=7,
            spilled_bytes_total=written,
            restored_bytes_total=restored,
        )
        for at_s, written, restored in totals
    ]
    opened.writer.write(Records(host_samples=samples), host)


def read(opened: OpenedStore, hosts: str, first_s: int, last_s: int) -> list[ObjectStoreFacts]:
    found = opened.reader.list_object_stores(hosts.split(), BASE + first_s * S, BASE + last_s * S)
    return list(found)


def test_what_was_spilled_in_a_step_is_its_part_of_the_samples_around(opened: OpenedStore) -> None:
    write(opened, "a", [(0, 0, 0), (10, 1000, 0), (20, 2000, 100), (30, 3000, 200)])
    write(opened, "b", [(0, None, None), (20, None, None)])
    opened.writer.write(Records(host_samples=[HostSample("c", BASE + 5 * S, 0.5)]), "c")
    on_a, on_b = read(opened, "a b c d", 10, 20)
    assert (on_a.host, on_a.spilled_bytes) == ("a", pytest.approx(1000))
    assert on_a.restored_bytes == pytest.approx(200 / 3)
    assert (on_a.fallback_bytes, on_a.used_ratio) == (7, pytest.approx(0.9))
    assert (on_b.host, on_b.spilled_bytes, on_b.restored_bytes) == ("b", None, None)


def test_totals_that_began_anew_are_not_told(opened: OpenedStore) -> None:
    write(opened, "again", [(0, 5000, 100), (10, 10, 0), (20, 20, 0)])
    (store,) = read(opened, "again", 5, 15)
    assert (store.spilled_bytes, store.restored_bytes) == (None, None)


def test_one_sample_tells_no_amount(opened: OpenedStore) -> None:
    write(opened, "once", [(10, 5000, 100)])
    (store,) = read(opened, "once", 9, 11)
    assert store.spilled_bytes is None
    assert store.used_ratio == pytest.approx(0.9)
