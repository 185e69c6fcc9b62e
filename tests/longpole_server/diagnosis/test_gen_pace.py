"""Gen against a past of thousands of steps."""

import random
import tracemalloc

import pytest

from longpole_server.analysis.step_table import StepTable
from longpole_server.diagnosis.gen_pace import measure_gen_pace
from longpole_server.model.step import StageTime, Step


def make_steps(count: int, *, slower: float = 1.0) -> list[Step]:
    chance = random.Random(count)
    steps: list[Step] = []
    for number in range(count):
        tokens = chance.randrange(100_000, 200_000)
        gen_s = slower * (2.0 + tokens / 10_000)
        gen = StageTime("gen", gen_s, gen_s, 1.0, None, None, (), "scalar")
        steps.append(
            Step("run", number, 1, 0, 1, gen_s, "loop", (gen,), 0.0, (), tokens_response=tokens)
        )
    return steps


def test_halves_of_a_long_run_are_compared_without_looking_at_every_two_of_its_steps() -> None:
    before, now = make_steps(5_000), StepTable.of(make_steps(4_000, slower=1.5))
    tracemalloc.start()
    pace = measure_gen_pace(before, now)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert pace is not None
    assert pace.growth == pytest.approx(1.5, rel=0.01)
    # Of 5,000 steps there are 12 million pairs: a column of them is 100 MB.
    assert peak_bytes < 50_000_000
