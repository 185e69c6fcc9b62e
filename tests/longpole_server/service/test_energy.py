from collections.abc import Generator

import pytest

from longpole_server.model.records import GpuSample, Records
from longpole_server.service.energy import EnergyReader
from longpole_server.service.facts import FactsReader
from longpole_server.service.runs import RunsReader
from support.server_runs import RunScript
from support.server_service import ServiceBench, opened_bench

COUNTED = RunScript("energy/counted", gpu_ids=("GPU-a", "GPU-b"), pid=1)
# Its driver keeps no counter of energy.
ESTIMATED = RunScript("energy/estimated", gpu_ids=("GPU-c",), pid=2)
SILENT = RunScript("energy/silent", pid=3)
WATTS = 400.0


def gpu_samples(gpu: str, *, counts: bool, last_s: int = 32) -> Records:
    return Records(
        gpu_samples=[
            GpuSample(
                COUNTED.host,
                gpu,
                0,
                COUNTED.at(second),
                utilization_ratio=0.9,
                power_watts=WATTS,
                energy_joules=5_000.0 + WATTS * second if counts else None,
            )
            for second in range(last_s)
        ]
    )


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServiceBench]:
    with opened_bench(tmp_path_factory.mktemp("store")) as opened:
        for script in (COUNTED, ESTIMATED, SILENT):
            opened.write(script.start(), *(gpu_samples(gpu, counts=script is COUNTED)
                                           for gpu in script.gpu_ids))  # fmt: skip
        opened.clock.seconds = 31.0
        opened.joiner.join()
        for script in (COUNTED, ESTIMATED, SILENT):
            opened.write(script.whole_step(1, 0.0), script.whole_step(2, 10.0))
        yield opened


def test_a_step_takes_what_the_counters_say(bench: ServiceBench) -> None:
    found = bench.service.get_energy(COUNTED.run_id)
    assert [each.step for each in found.steps] == [1, 2]
    second = found.steps[1]
    assert second.energy_joules == pytest.approx(2 * 10 * WATTS)
    assert second.joules_per_token == pytest.approx(2 * 10 * WATTS / 1_000)
    assert (second.gpu_count, second.is_estimated) == (2, False)
    stages = {each.stage: each.energy_joules for each in second.stages}
    assert stages["gen"] == pytest.approx(2 * 6 * WATTS)
    assert sum(joules or 0.0 for joules in stages.values()) == pytest.approx(second.energy_joules)
    assert found.gpu_seconds > 0
    assert found.energy_joules == pytest.approx(found.gpu_seconds * WATTS, rel=0.01)


def test_of_many_gpus_an_answer_reads_the_newest_steps_and_the_next_one_more(
    bench: ServiceBench,
) -> None:
    late_ns = COUNTED.at(3_600)
    runs = RunsReader(bench.reader, bench.revisions, 60.0, lambda _: (), bench.clock.now_ns)
    facts = FactsReader(bench.reader)
    energy = EnergyReader(bench.reader, runs, facts, lambda: late_ns, max_read_gpus=3)
    steps = bench.reader.list_last_steps(COUNTED.run_id, 10)
    for expected in ([2], [1, 2], [1, 2]):
        found = energy.read_run(COUNTED.run_id, steps)
        assert [each.step for each in found.steps] == expected
        assert found.steps[-1].energy_joules == pytest.approx(2 * 10 * WATTS)


def test_samples_that_come_late_are_counted_though_a_step_is_not_read_at_every_look(
    bench: ServiceBench,
) -> None:
    script = RunScript("energy/late", gpu_ids=("GPU-late",), pid=4)
    bench.write(script.start(), gpu_samples("GPU-late", counts=True, last_s=35))
    bench.clock.seconds = 34.0
    bench.joiner.join()
    bench.write(script.whole_step(1, 30.0))
    seen: list[float | None] = []
    for now_s in (41.0, 42.0, 45.0, 47.0):
        bench.clock.seconds = now_s
        seen.append(bench.service.get_energy(script.run_id).steps[-1].energy_joules)
        bench.write(gpu_samples("GPU-late", counts=True, last_s=46))
    assert seen == [None, None, None, pytest.approx(10 * WATTS)]


def test_the_step_that_is_looked_at_all_the_while_is_not_forgotten_first(
    bench: ServiceBench,
) -> None:
    runs = RunsReader(bench.reader, bench.revisions, 60.0, lambda _: (), bench.clock.now_ns)
    now_ns = [COUNTED.at(21.0)]
    energy = EnergyReader(
        bench.reader, runs, FactsReader(bench.reader), lambda: now_ns[0], max_read_gpus=1,
        max_kept=2,
    )  # fmt: skip
    steps = bench.reader.list_last_steps(COUNTED.run_id, 2)
    assert [each.step for each in energy.read_run(COUNTED.run_id, steps[1:]).steps] == [2]
    assert [each.step for each in energy.read_run(COUNTED.run_id, steps[:1]).steps] == [1]
    # Late samples may have come: the second step is read anew, then another one for the first time.
    now_ns[0] = COUNTED.at(40.0)
    energy.read_run(COUNTED.run_id, steps[1:])
    other = bench.reader.list_last_steps(ESTIMATED.run_id, 1)
    energy.read_run(ESTIMATED.run_id, other)
    # It is known still, so that the one before it is all that has to be read.
    assert [each.step for each in energy.read_run(COUNTED.run_id, steps).steps] == [1, 2]


def test_where_no_counter_tells_it_is_an_estimate_and_says_so(bench: ServiceBench) -> None:
    (only,) = bench.service.get_energy(ESTIMATED.run_id, 2, 2).steps
    assert only.is_estimated
    assert only.energy_joules == pytest.approx(10 * WATTS, rel=0.15)
    assert all(each.is_estimated for each in only.stages)
    assert bench.service.get_energy(ESTIMATED.run_id).energy_joules is None
    assert all(each.is_estimated for each in bench.service.get_step(ESTIMATED.run_id, 2).energy)


def test_without_gpus_nothing_is_zero(bench: ServiceBench) -> None:
    found = bench.service.get_energy(SILENT.run_id)
    assert (found.energy_joules, found.gpu_seconds) == (None, 0.0)
    assert [(each.energy_joules, each.joules_per_token) for each in found.steps] == [
        (None,) * 2
    ] * 2
