from pathlib import Path

from longpole_server.model.records import GpuProcess, GpuSample, Records
from longpole_server.model.stragglers import RunStragglers
from support.server_runs import RunScript
from support.server_service import opened_bench

RUN = RunScript("paces/run", gpu_ids=tuple(f"GPU-{at}" for at in range(5)))
SLOW = 2


def gpu_work(first_s: int, last_s: int) -> Records:
    """Five GPUs at work; one of them is capped, too hot, and takes less power for it."""
    samples = [
        GpuSample(
            RUN.host,
            f"GPU-{at}",
            at,
            RUN.at(second),
            utilization_ratio=0.9,
            sm_clock_hz=1.2e9 if at == SLOW else 1.9e9,
            power_watts=300.0 if at == SLOW else 500.0,
            clocks_event_reasons=0x40 if at == SLOW else 0,
        )
        for at in range(5)
        for second in range(first_s, last_s)
    ]
    ranks = [
        GpuProcess(RUN.host, f"GPU-{at}", 900 + at, RUN.at(first_s), rank=at) for at in range(5)
    ]
    return Records(gpu_samples=samples, gpu_processes=ranks)


def test_who_is_slow_in_a_step_and_over_several(tmp_path: Path) -> None:
    with opened_bench(tmp_path) as bench:
        bench.write(RUN.start(gpu_count=5), gpu_work(0, 25))
        assert bench.service.get_stragglers(RUN.run_id) == RunStragglers()
        bench.clock.seconds = 25.0
        bench.joiner.join()
        bench.write(RUN.whole_step(1, 0.0), RUN.whole_step(2, 10.0))

        of_step = bench.service.get_step(RUN.run_id, 2).stragglers.gpus[0]
        over_steps = bench.service.get_stragglers(RUN.run_id)
        assert (over_steps.first_step, over_steps.last_step, over_steps.num_steps) == (1, 2, 2)
        worst, *others = over_steps.gpus
        for score in (of_step, worst):
            assert (score.gpu_uuid, score.rank, score.is_straggler) == ("GPU-2", 2, True)
            assert score.of_best_ratio is not None
            assert round(score.of_best_ratio, 3) == 0.632
            assert (score.power_watts, score.reasons) == (300.0, ("hardware thermal",))
            assert score.throttled_ratio == 1.0
        assert (worst.num_steps, worst.num_slow) == (2, 2)
        assert [(each.num_slow, each.of_best_ratio) for each in others] == [(0, 1.0)] * 4
        assert bench.service.get_stragglers(RUN.run_id, 2, 2).num_steps == 1
