from longpole_server.ingest.batch_ids import BatchIds


def test_the_oldest_is_forgotten() -> None:
    ids = BatchIds(2, ["a", "b"])

    ids.add("a")
    ids.add("c")

    assert ("a" in ids, "b" in ids, "c" in ids) == (True, False, True)
    assert len(ids) == 2
