from longpole_server.model.records import EngineSample, Records
from longpole_server.read import EngineBin
from support.store_opening import OpenedStore
from support.store_records import BASE_NS, SECOND_NS

TOKENS, RUNNING = "vllm:generation_tokens_total", "vllm:num_requests_running"


def sample(name: str, second: float, value: float, replica: str = "replica-0") -> EngineSample:
    return EngineSample("engines", 1, replica, name, BASE_NS + round(second * SECOND_NS), value)


def read(opened: OpenedStore, *names: str, bin_s: int = 10) -> list[EngineBin]:
    bins = opened.reader.list_engine_bins(
        "engines", 1, names, BASE_NS, BASE_NS + 40 * SECOND_NS, bin_s * SECOND_NS
    )
    return list(bins)


def test_series_by_replica_and_bin(opened: OpenedStore) -> None:
    samples = [
        # The state before the range counts; a fall is a restart of the engine.
        sample(TOKENS, -5, 1000.0),
        sample(TOKENS, 1, 1100.0),
        sample(TOKENS, 9, 1150.0),
        sample(TOKENS, 12, 30.0),
        sample(TOKENS, 35, 80.0),
        sample(TOKENS, 39, 80.0),
        sample(RUNNING, 2, 4.0),
        sample(RUNNING, 8, 6.0),
        # Of the first sample of a series nobody knows what came before.
        sample(TOKENS, 3, 700.0, "replica-1"),
        sample(TOKENS, 4, 710.0, "replica-1"),
        sample("vllm:num_requests_waiting", 2, 9.0),
        EngineSample("other", 1, "replica-0", TOKENS, BASE_NS, 5.0),
        EngineSample("engines", 2, "replica-0", TOKENS, BASE_NS, 5.0),
    ]
    opened.writer.write(Records(engine_samples=samples), "engine-bins")
    found = {(row.replica, row.name, row.bin): row for row in read(opened, TOKENS, RUNNING)}
    increases = {key: row.increase for key, row in found.items() if row.name == TOKENS}
    assert increases == {
        ("replica-0", TOKENS, 0): 150.0,
        ("replica-0", TOKENS, 1): 30.0,
        ("replica-0", TOKENS, 3): 50.0,
        ("replica-1", TOKENS, 0): 10.0,
    }
    running = found["replica-0", RUNNING, 0]
    assert (running.mean, running.largest) == (5.0, 6.0)
    assert not any(row.name.endswith("waiting") for row in found.values())


def test_series_with_labels_are_added_up(opened: OpenedStore) -> None:
    name = "sglang:realtime_tokens_total"
    samples = [
        sample(f'{name}{{mode="{mode}"}}', second, value, "labelled")
        for mode, second, value in (
            ("decode", 1, 10.0),
            ("decode", 2, 50.0),
            ("prefill_compute", 1, 100.0),
            ("prefill_compute", 2, 105.0),
        )
    ]
    opened.writer.write(Records(engine_samples=samples), "engine-labels")
    (row,) = [row for row in read(opened, name) if row.replica == "labelled"]
    assert (row.name, row.increase) == (name, 45.0)
