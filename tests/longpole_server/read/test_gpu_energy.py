import pytest

from longpole_server.model.records import GpuSample, Records
from support.store_opening import OpenedStore

NS = 10**9
BASE = 1_700_000_000 * NS


def test_energy_at_a_moment_lies_between_two_samples(opened: OpenedStore) -> None:
    samples = [
        GpuSample("node", "GPU-0", 0, BASE + at_s * NS, energy_joules=joules, power_watts=watts)
        for at_s, joules, watts in ((0, 1000.0, 100.0), (1, 1100.0, 900.0), (2, 1600.0, 200.0))
    ]
    samples.append(GpuSample("node", "GPU-1", 1, BASE, energy_joules=None, power_watts=100.0))
    opened.writer.write(Records(gpu_samples=samples), "energy")
    moments = [BASE, BASE + NS + NS // 2, BASE + 4 * NS, BASE + 9 * NS]
    found = opened.reader.read_energy(["GPU-0", "GPU-1"], moments)
    assert found == pytest.approx(
        {
            ("GPU-0", BASE): 1000.0,
            ("GPU-0", BASE + NS + NS // 2): 1350.0,
            # Nothing came since: the power of the last sample tells.
            ("GPU-0", BASE + 4 * NS): 2000.0,
        }
    )
    assert opened.reader.read_energy([], moments) == {}


def test_a_stage_shorter_than_the_time_between_samples_takes_no_more_than_there_was(
    opened: OpenedStore,
) -> None:
    # Idle when the sample was taken, at full power for the rest of that second.
    samples = [
        GpuSample(
            "node-short", "GPU-short", 0, BASE + at_s * NS, energy_joules=joules, power_watts=watts
        )
        for at_s, joules, watts in ((0, 0.0, 700.0), (1, 100.0, 100.0), (2, 800.0, 700.0))
    ]
    opened.writer.write(Records(gpu_samples=samples), "short")
    edges = [BASE + at_ms * 1_000_000 for at_ms in (900, 1_000, 1_900, 2_000)]
    found = opened.reader.read_energy(["GPU-short"], edges)
    joules = [found["GPU-short", edge] for edge in edges]
    assert joules == sorted(joules)
    assert joules == pytest.approx([90.0, 100.0, 730.0, 800.0])


def test_a_counter_that_began_anew_is_not_drawn_back(opened: OpenedStore) -> None:
    samples = [
        GpuSample(
            "node-anew", "GPU-anew", 0, BASE + at_s * NS, energy_joules=joules, power_watts=100.0
        )
        for at_s, joules in ((0, 9000.0), (1, 5.0))
    ]
    opened.writer.write(Records(gpu_samples=samples), "anew")
    found = opened.reader.read_energy(["GPU-anew"], [BASE + NS // 2, BASE - NS])
    assert found == pytest.approx({("GPU-anew", BASE + NS // 2): 9050.0})


def test_moments_far_apart_and_at_the_edge_of_ten_minutes(opened: OpenedStore) -> None:
    edge = BASE // (600 * NS) * 600 * NS + 600 * NS
    moments = [edge + NS, edge + 86_400 * NS]
    samples = [
        GpuSample("node", "GPU-0", 0, at_ns - 2 * NS, energy_joules=joules, power_watts=100.0)
        for at_ns, joules in zip(moments, (1000.0, 5000.0), strict=True)
    ]
    opened.writer.write(Records(gpu_samples=samples), "far")
    assert opened.reader.read_energy(["GPU-0"], moments) == pytest.approx(
        {("GPU-0", moments[0]): 1200.0, ("GPU-0", moments[1]): 5200.0}
    )
