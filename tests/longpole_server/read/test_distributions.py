import numpy as np
import pytest

from longpole_server.model.comparison import Quantiles
from longpole_server.model.records import UNKNOWN_STEP, Records, TrajectoryRecord
from longpole_server.read.distributions import StepWindow, get_quantiles
from support.store_opening import OpenedStore
from support.store_records import BASE_NS, SECOND_NS

NOTHING = Quantiles(0, None, None, None, None)
SECONDS = [float(value) for value in np.random.default_rng(7).lognormal(2.0, 1.0, size=500)]


def make_sample(
    number: int,
    seconds: float,
    *,
    step: int = 5,
    attempt: int = 1,
    phase: str = "train",
    output_tokens: int | None = None,
    run_id: str = "spread",
) -> TrajectoryRecord:
    return TrajectoryRecord(
        run_id,
        attempt,
        step,
        f"t{number}",
        BASE_NS,
        BASE_NS + round(seconds * SECOND_NS),
        phase=phase,
        output_tokens=output_tokens,
        span_id=f"s{number}",
    )


@pytest.fixture(scope="module", autouse=True)
def written(opened: OpenedStore) -> None:
    samples = [
        *(make_sample(n, seconds, run_id="many") for n, seconds in enumerate(SECONDS)),
        make_sample(0, 1.0, output_tokens=10),
        make_sample(1, 2.0, output_tokens=None),
        make_sample(2, 4.0, output_tokens=30),
        make_sample(3, 8.0, step=6, output_tokens=50),
        make_sample(4, 100.0, phase="validation"),
        make_sample(5, 200.0, step=7),
        make_sample(6, 300.0, attempt=2),
        make_sample(7, 16.0, step=UNKNOWN_STEP),
        make_sample(8, 400.0, step=UNKNOWN_STEP),
        make_sample(9, 17.0, step=UNKNOWN_STEP, attempt=2),
    ]
    for token in ("spread-1", "spread-2"):
        opened.writer.write(Records(trajectories=samples), token)


def window(step: int, attempt: int = 1, start_s: float = 0.0, end_s: float = 0.0) -> StepWindow:
    return StepWindow(
        attempt, step, BASE_NS + round(start_s * SECOND_NS), BASE_NS + round(end_s * SECOND_NS)
    )


def test_samples_of_several_steps_count_together_and_once(opened: OpenedStore) -> None:
    found = get_quantiles(opened.pool, "spread", [window(5), window(6)])
    assert found["duration_s"].count == 4
    assert found["duration_s"].p50 == pytest.approx(3.0)
    assert found["duration_s"].max == 8.0


def test_samples_that_report_no_tokens_are_left_out_there(opened: OpenedStore) -> None:
    found = get_quantiles(opened.pool, "spread", [window(5)])["output_tokens"]
    assert (found.count, found.p50, found.max) == (2, 20.0, 30.0)
    assert get_quantiles(opened.pool, "spread", [window(7)])["output_tokens"] == NOTHING


def test_samples_of_unknown_step_count_where_they_end(opened: OpenedStore) -> None:
    found = get_quantiles(opened.pool, "spread", [window(6, start_s=10, end_s=16)])
    assert (found["duration_s"].count, found["duration_s"].max) == (2, 16.0)
    excluded = get_quantiles(opened.pool, "spread", [window(6, start_s=16, end_s=20)])
    assert excluded["duration_s"].count == 1


def test_without_samples_nothing_is_known(opened: OpenedStore) -> None:
    for steps in ([], [window(90)]):
        found = get_quantiles(opened.pool, "spread", steps)
        assert found == {"duration_s": NOTHING, "output_tokens": NOTHING}
    assert get_quantiles(opened.pool, "nobody", [window(5)])["duration_s"] == NOTHING


def test_quantiles_are_exact_for_few_samples_and_close_for_many(opened: OpenedStore) -> None:
    exact = get_quantiles(opened.pool, "many", [window(5)])["duration_s"]
    expected = [float(value) for value in np.quantile(np.array(SECONDS), (0.5, 0.9, 0.99))]
    assert [exact.p50, exact.p90, exact.p99] == pytest.approx(expected, rel=1e-6)
    close = get_quantiles(opened.pool, "many", [window(5)], max_exact=100)["duration_s"]
    assert [close.p50, close.p90, close.p99] == pytest.approx(expected, rel=0.1)
    assert (close.count, close.max) == (exact.count, exact.max)


def test_thousands_of_steps_are_one_question(opened: OpenedStore) -> None:
    steps = [window(step, start_s=step, end_s=step + 1) for step in range(5_000)]
    assert get_quantiles(opened.pool, "spread", steps)["duration_s"].count == 7
