from dataclasses import replace

from longpole_server.model.gpu import GpuGrant, GpuHolder, GpuNow, RunGpu
from longpole_server.model.records import GpuAllocation, GpuProcess, GpuSample, Records
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
        replace(expected, gpu_uuid="GPU-1", gpu_index=1, run_id="run-b", role="rollout", how="pid"),
    ]
    assert opened.reader.list_gpus(BASE_NS + 10 * SECOND_NS) == []


def test_the_last_word_on_a_held_gpu_counts(opened: OpenedStore) -> None:
    guess = RunGpu("held", 1, "node-1", "GPU-7", 0, "trainer", BASE_NS, None, "estimated")
    known = replace(guess, how="gpu_ids", model="H200")
    for each in (guess, known, guess, known):
        opened.writer.write_run_gpus([each])
    assert opened.reader.list_run_gpus("held") == [known]
    assert opened.reader.list_run_gpus("nobody") == []


def test_what_was_taken_back_is_not_held(opened: OpenedStore) -> None:
    wrong = RunGpu("taken-back", 1, "node-4", "GPU-9", 0, "trainer", BASE_NS, None, "estimated")
    moment = replace(wrong, gpu_uuid="GPU-10", until_ns=BASE_NS)
    opened.writer.write_run_gpus([wrong, moment])
    opened.writer.write_run_gpus([replace(wrong, until_ns=BASE_NS - 1)])
    assert opened.reader.list_run_gpus("taken-back") == [moment]


def test_who_holds_memory_on_a_gpu_and_from_when_to_when(opened: OpenedStore) -> None:
    seen = [
        GpuProcess("node-2", "GPU-5", pid, FOREVER_NS + second, memory, slurm_job_id=job)
        for pid, second, memory, job in (
            (1, 5, None, None),
            (1, 4, 7, None),
            (1, 8, 7, "77"),
            (2, 3, 9, "78"),
            (3, -1, 9, None),
        )
    ]
    seen.append(replace(seen[3], ts_ns=FOREVER_NS + 9, pod_uid="u", ray_job_id="01000000"))
    opened.writer.write(Records(gpu_processes=seen), "sightings")
    assert opened.reader.list_gpu_holders(FOREVER_NS) == [
        GpuHolder("node-2", "GPU-5", 1, FOREVER_NS + 4, FOREVER_NS + 5),
        GpuHolder("node-2", "GPU-5", 1, FOREVER_NS + 8, FOREVER_NS + 8, None, "77"),
        GpuHolder("node-2", "GPU-5", 2, FOREVER_NS + 3, FOREVER_NS + 3, None, "78"),
        GpuHolder("node-2", "GPU-5", 2, FOREVER_NS + 9, FOREVER_NS + 9, "u", "78", "01000000"),
    ]


def test_to_which_pods_a_gpu_was_given(opened: OpenedStore) -> None:
    seen = [
        GpuAllocation("node-3", "GPU-6", "rl", pod, container, FOREVER_NS + second)
        for pod, container, second in (
            ("b", "main", 2),
            ("a", "main", 1),
            ("a", "side", 7),
            ("c", "main", -1),
        )
    ]
    opened.writer.write(Records(gpu_allocations=seen), "allocations")
    assert opened.reader.list_gpu_grants(FOREVER_NS) == [
        GpuGrant("node-3", "GPU-6", "rl", "a", FOREVER_NS + 1, FOREVER_NS + 7),
        GpuGrant("node-3", "GPU-6", "rl", "b", FOREVER_NS + 2, FOREVER_NS + 2),
    ]


def test_what_each_gpu_did_over_a_range(opened: OpenedStore) -> None:
    start_ns = FOREVER_NS + 5_000 * SECOND_NS
    samples = [
        GpuSample(
            "node-9",
            uuid,
            index,
            start_ns + second * SECOND_NS,
            sm_active_ratio=activity if second < 6 else 0.01,
            utilization_ratio=1.0,
            sm_clock_hz=1.9e9 if second < 6 else 0.4e9,
            clocks_event_reasons=reasons if second < 3 else 1,
        )
        for index, (uuid, activity, reasons) in enumerate(
            (("GPU-hot", 0.8, 0x40 | 0x4), ("GPU-idle", 0.02, 1), ("GPU-mute", 0.5, None))
        )
        for second in range(10)
    ]
    samples = [
        replace(sample, clocks_event_reasons=None) if sample.gpu_uuid == "GPU-mute" else sample
        for sample in samples
    ]
    opened.writer.write(Records(gpu_samples=samples), "work")
    work = opened.reader.list_gpu_work(
        ["GPU-hot", "GPU-idle", "GPU-mute", "GPU-absent"],
        start_ns,
        start_ns + 10 * SECOND_NS,
        busy_activity=0.1,
        slowdown_mask=0x40,
    )
    hot, idle, mute = work
    assert (hot.gpu_uuid, hot.busy_s, hot.idle_s) == ("GPU-hot", 6.0, 4.0)
    assert (hot.busy_sm_clock_hz, hot.slow_ratio, hot.reasons) == (1.9e9, 0.5, 0x40)
    assert hot.reported_to_ns == start_ns + 9 * SECOND_NS
    assert (idle.busy_s, idle.idle_s, idle.busy_sm_clock_hz) == (0.0, 10.0, None)
    assert (idle.slow_ratio, mute.slow_ratio) == (None, None)
    assert opened.reader.list_gpu_work([], start_ns, start_ns + 1, 0.1, 0x40) == []
