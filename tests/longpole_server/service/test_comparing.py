import math

import pytest

from longpole_server.errors import BadRequestError, NotFoundError
from longpole_server.model.comparison import ConfigDifference, Quantiles
from longpole_server.service import StepRange
from support.server_runs import RunScript, merge
from support.server_service import ServiceBench


def write_run(
    bench: ServiceBench,
    run_id: str,
    *,
    slower_s: float = 0.0,
    steps: range,
    attempt: int = 1,
    **start: object,
) -> RunScript:
    run = RunScript(run_id, attempt=attempt)
    bench.write(run.start(gpu_count=8, **start))
    for step in steps:
        begin_s = (step - 1) * 30.0
        stages = (("gen", 0.0, 6.0 + slower_s), ("update_actor", 6.0 + slower_s, 9.0 + slower_s))
        bench.write(
            merge(
                run.stages(step, begin_s, stages),
                run.loop(step, begin_s, 10.0 + slower_s),
                *(
                    run.sample(f"{attempt}-{step}-{n}", begin_s, begin_s + 1.0 + n, step)
                    for n in range(4)
                ),
            )
        )
    return run


def test_two_runs(bench: ServiceBench, run_id: str):
    write_run(bench, f"{run_id}/old", steps=range(1, 6), config={"n": "8", "only": "old"})
    write_run(bench, f"{run_id}/new", steps=range(1, 4), slower_s=10.0, config={"n": "16"})
    compared = bench.service.compare(f"{run_id}/new", f"{run_id}/old")
    assert (compared.before.first_step, compared.before.last_step) == (2, 5)
    assert (compared.after.first_step, compared.after.last_step) == (2, 3)
    assert [excluded.step for excluded in compared.after.excluded] == [1]
    assert compared.after.attempts == (1,)
    found = compared.decomposition
    assert found.total == pytest.approx(-math.log(2))
    gen = found.part("stage", "gen")
    assert gen is not None
    assert gen.log_change == pytest.approx(found.total)
    assert compared.config == (
        ConfigDifference("n", "changed", "8", "16"),
        ConfigDifference("only", "removed", "old", None),
    )
    durations, tokens = compared.distributions
    assert (durations.metric, durations.before.count, durations.after.count) == (
        "duration_s",
        16,
        8,
    )
    assert durations.before == Quantiles(16, 2.5, 4.0, 4.0, 4.0)
    assert tokens.after == Quantiles(8, 100.0, 100.0, 100.0, 100.0)


def test_the_way_back_has_other_signs(bench: ServiceBench, run_id: str):
    for name, slower_s in (("old", 0.0), ("new", 3.0)):
        write_run(bench, f"{run_id}/{name}", steps=range(1, 3), slower_s=slower_s)
    there = bench.service.compare(f"{run_id}/new", f"{run_id}/old").decomposition
    back = bench.service.compare(f"{run_id}/old", f"{run_id}/new").decomposition
    assert there.total == pytest.approx(-(back.total or 0.0))


def test_two_windows_of_one_run_have_the_settings_of_their_attempts(
    bench: ServiceBench, run_id: str
):
    write_run(bench, run_id, steps=range(1, 4), config={"n": "8"})
    write_run(bench, run_id, steps=range(4, 7), attempt=2, slower_s=5.0, config={"n": "16"})
    compared = bench.service.compare(run_id, run_id, StepRange(5, 6), StepRange(2, 3))
    assert (compared.before.attempts, compared.after.attempts) == ((1,), (2,))
    assert compared.config == (ConfigDifference("n", "changed", "8", "16"),)
    assert compared.decomposition.total == pytest.approx(-math.log(1.5))


def test_windows_without_closed_steps(bench: ServiceBench, run_id: str):
    write_run(bench, run_id, steps=range(1, 4))
    compared = bench.service.compare(run_id, run_id, StepRange(2, 3), StepRange(50, 60))
    assert compared.decomposition.total is None
    assert compared.decomposition.reason == "no closed step in the window before"
    assert (compared.before.first_step, compared.before.last_step) == (50, 60)
    assert compared.before.num_judged == 0
    assert compared.distributions[0].before == Quantiles(0, None, None, None, None)


def test_what_is_refused(bench: ServiceBench, run_id: str):
    write_run(bench, run_id, steps=range(1, 2))
    with pytest.raises(NotFoundError):
        bench.service.compare(run_id, "nobody")
    with pytest.raises(NotFoundError):
        bench.service.compare("nobody", run_id)
    with pytest.raises(BadRequestError, match=r"^from 3 to 2"):
        bench.service.compare(run_id, run_id, StepRange(3, 2))
    with pytest.raises(BadRequestError, match=r"^with_from 3 to 2"):
        bench.service.compare(run_id, run_id, StepRange(), StepRange(3, 2))
