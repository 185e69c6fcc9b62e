from dataclasses import replace

from longpole_server.model.gpu import GpuNow, RunGpu
from longpole_server.model.records import GpuProcess, GpuSample, Records
from support.store_opening import OpenedStore
from support.store_records import BASE_NS, SECOND_NS

FOREVER_NS = BASE_NS + 1_000_000 * SECOND_NS


def test_the_newest_sample_of_each_gpu_and_who_holds_it(opened: OpenedStore) -> None:
    samples = [
        GpuSample(
            "node-0",
            f"GPU-{index}",
            index,
            BASE_NS + second * SECOND_NS,
            "H100",
            utilization_ratio=0.57,
            memory_used_bytes=80 << 30,
            power_watts=None if second == 9 else 300.0,
        )
        for index in (1, 0)
        for second in (9, 0, 5)
    ]
    opened.writer.write(Records(gpu_samples=samples), "newest")
    held = RunGpu("run-b", 1, "node-0", "GPU-1", 1, "rollout", BASE_NS + 5 * SECOND_NS, None, "pid")
    opened.writer.write_run_gpus(
        [
            replace(held, run_id="run-a", since_ns=BASE_NS, until_ns=BASE_NS + 5 * SECOND_NS),
            held,
            replace(held, run_id="later", since_ns=BASE_NS + 20 * SECOND_NS),
        ]
    )
    expected = GpuNow(
        host="node-0",
        gpu_uuid="GPU-0",
        gpu_index=0,
        model="H100",
        ts_ns=BASE_NS + 9 * SECOND_NS,
        utilization_ratio=0.57,
        memory_used_bytes=80 << 30,
        memory_total_bytes=None,
        sm_active_ratio=None,
        tensor_active_ratio=None,
        power_watts=None,
        temperature_celsius=None,
        run_id=None,
        role=None,
    )
    assert opened.reader.list_gpus(BASE_NS) == [
        expected,
        replace(expected, gpu_uuid="GPU-1", gpu_index=1, run_id="run-b", role="rollout"),
    ]
    assert opened.reader.list_gpus(BASE_NS + 10 * SECOND_NS) == []


def test_the_last_word_on_a_held_gpu_counts(opened: OpenedStore) -> None:
    guess = RunGpu("held", 1, "node-1", "GPU-7", 0, "trainer", BASE_NS, None, "estimated")
    known = replace(guess, how="gpu_ids", model="H200")
    for each in (guess, known, guess, known):
        opened.writer.write_run_gpus([each])
    assert opened.reader.list_run_gpus("held") == [known]
    assert opened.reader.list_run_gpus("nobody") == []


def test_the_newest_sighting_of_each_process(opened: OpenedStore) -> None:
    seen = [
        GpuProcess("node-2", "GPU-5", pid, FOREVER_NS + second, memory)
        for pid, second, memory in ((1, 5, None), (1, 4, 7), (2, 3, 9), (3, -1, 9))
    ]
    opened.writer.write(Records(gpu_processes=seen), "sightings")
    assert opened.reader.list_gpu_processes(FOREVER_NS) == [seen[0], seen[2]]
