import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.analysis.decomposition import decompose, log_mean
from longpole_server.model.decomposition import Decomposition
from longpole_server.model.step import OutsideStage, StageTime, Step

NAMES: tuple[str, ...] = (
    "gen",
    "reward",
    "old_log_prob",
    "update_actor",
    "update_weights",
    "own_stage",
)


def make_step(
    seconds: Mapping[str, float],
    *,
    unattributed_s: float = 0.0,
    outside: Mapping[str, float] | None = None,
    tokens: int | None = 1_000,
    gpus: int | None = 8,
    number: int = 1,
) -> Step:
    duration_s = math.fsum(seconds.values()) + unattributed_s
    return Step(
        run_id="run",
        step=number,
        attempt=1,
        start_ns=0,
        end_ns=1,
        duration_s=duration_s,
        closed_by="loop",
        stages=tuple(
            StageTime(name, value, value, value / duration_s, None, None, (), "span")
            for name, value in seconds.items()
        ),
        unattributed_s=unattributed_s,
        outside=tuple(OutsideStage(name, value) for name, value in (outside or {}).items()),
        tokens_total=tokens,
        gpu_count=gpus,
    )


OUTSIDE: tuple[str, ...] = ("testing", "save_checkpoint")
SECONDS = st.floats(0.0, 1e5, allow_subnormal=False)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    return make_step(
        draw(st.dictionaries(st.sampled_from(NAMES), SECONDS)),
        unattributed_s=draw(st.floats(1e-3, 1e5)),
        outside=draw(st.dictionaries(st.sampled_from(OUTSIDE), SECONDS)),
        tokens=draw(st.none() | st.integers(0, 10**9)),
        gpus=draw(st.none() | st.integers(0, 10**5)),
    )


WINDOWS = st.lists(steps(), min_size=1, max_size=6)


def known_sum(decomposition: Decomposition, *, outside: bool = True) -> float:
    return math.fsum(
        part.log_change
        for part in decomposition.parts
        if part.log_change is not None and (outside or part.kind != "outside")
    )


@given(WINDOWS, WINDOWS)
def test_parts_add_up(before: list[Step], after: list[Step]):
    found = decompose(before, after)
    assert found.total is not None
    assert found.total_of_steps is not None
    assert known_sum(found) == pytest.approx(found.total, abs=1e-9)
    assert known_sum(found, outside=False) == pytest.approx(found.total_of_steps, abs=1e-9)
    for total, first, second in (
        (found.total_of_steps, found.before.throughput, found.after.throughput),
        (found.total, found.before.loop_throughput, found.after.loop_throughput),
    ):
        assert first is not None
        assert second is not None
        assert total == pytest.approx(math.log(second) - math.log(first), abs=1e-9)


@given(WINDOWS, WINDOWS)
def test_the_way_back_is_the_way_there_with_other_signs(before: list[Step], after: list[Step]):
    there, back = decompose(before, after), decompose(after, before)
    assert there.total == pytest.approx(-(back.total or 0.0), abs=1e-9)
    assert there.quantity == back.quantity
    assert [(part.kind, part.name) for part in there.parts] == [
        (part.kind, part.name) for part in back.parts
    ]
    for one, other in zip(there.parts, back.parts, strict=True):
        assert (one.before, one.after) == (other.after, other.before)
        if one.log_change is None:
            assert other.log_change is None
        else:
            assert one.log_change == pytest.approx(-(other.log_change or 0.0), abs=1e-9)


@given(WINDOWS)
def test_nothing_changes_between_a_window_and_itself(window: list[Step]):
    found = decompose(window, window)
    assert found.total == 0.0
    assert {part.log_change for part in found.parts} <= {0.0, None}


@given(WINDOWS, WINDOWS)
def test_seconds_of_the_parts_are_those_of_the_step(before: list[Step], after: list[Step]):
    found = decompose(before, after)
    inner = [part for part in found.parts if part.kind in ("stage", "unattributed")]
    assert math.fsum(part.before or 0.0 for part in inner) == pytest.approx(found.before.step_s)
    assert math.fsum(part.after or 0.0 for part in inner) == pytest.approx(found.after.step_s)


def test_a_stage_that_takes_twice_as_long_explains_all():
    found = decompose(
        [make_step({"gen": 6, "update_actor": 4})], [make_step({"gen": 12, "update_actor": 4})]
    )
    gen = found.part("stage", "gen")
    assert gen is not None
    assert gen.log_change == pytest.approx(-math.log(1.6))
    assert found.total == pytest.approx(gen.log_change, abs=1e-12)
    others = [part.log_change for part in found.parts if part is not gen]
    assert others == [0.0] * len(others)
    assert found.quantity == "tokens_per_s_per_gpu"


def test_tokens_and_gpus_have_their_own_signs():
    found = decompose(
        [make_step({"gen": 10}, tokens=1_000, gpus=8)],
        [make_step({"gen": 10}, tokens=2_000, gpus=16)],
    )
    tokens, gpus = found.part("tokens"), found.part("gpus")
    assert tokens is not None
    assert gpus is not None
    assert tokens.log_change == pytest.approx(math.log(2))
    assert gpus.log_change == pytest.approx(-math.log(2))
    assert found.total == pytest.approx(0.0)
    assert (found.before.throughput, found.after.throughput) == (12.5, 12.5)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_stage_on_one_side_only_counts_with_all_its_seconds(swapped: bool):
    sides = [make_step({"gen": 10})], [make_step({"gen": 10, "reward": 5})]
    found = decompose(*reversed(sides)) if swapped else decompose(*sides)
    reward = found.part("stage", "reward")
    assert reward is not None
    assert (reward.before, reward.after) == ((5.0, 0.0) if swapped else (0.0, 5.0))
    assert reward.log_change == pytest.approx(math.log(1.5) * (1 if swapped else -1))
    assert found.total == pytest.approx(reward.log_change)


def test_what_runs_between_steps_is_a_part_of_the_loop():
    found = decompose([make_step({"gen": 10})], [make_step({"gen": 10}, outside={"testing": 5.0})])
    testing = found.part("outside", "testing")
    assert testing is not None
    assert testing.log_change == pytest.approx(-math.log(1.5))
    assert found.total == pytest.approx(-math.log(1.5))
    assert found.total_of_steps == 0.0
    assert (found.after.outside_s, found.after.step_s) == (5.0, 10.0)


@pytest.mark.parametrize(
    ("missing", "kind", "quantity"),
    [
        ({"tokens": None}, "tokens", "steps_per_s_per_gpu"),
        ({"tokens": 0}, "tokens", "steps_per_s_per_gpu"),
        ({"gpus": None}, "gpus", "tokens_per_s"),
        ({"gpus": 0}, "gpus", "tokens_per_s"),
        ({"tokens": None, "gpus": None}, "gpus", "steps_per_s"),
    ],
)
def test_what_one_side_lacks_is_null_with_its_reason_and_the_rest_is_exact(
    missing: dict[str, int | None], kind: str, quantity: str
):
    after = make_step({"gen": 5}, tokens=missing.get("tokens", 1_000), gpus=missing.get("gpus", 8))
    found = decompose([make_step({"gen": 10})], [after])
    part = found.part("gpus" if kind == "gpus" else "tokens")
    assert part is not None
    assert part.log_change is None
    assert part.reason is not None
    assert part.reason.endswith("after")
    assert found.quantity == quantity
    assert found.total == pytest.approx(known_sum(found), abs=1e-12)
    gen = found.part("stage", "gen")
    assert gen is not None
    assert gen.log_change == pytest.approx(math.log(2))


def test_a_mean_over_some_steps_says_so():
    before = [make_step({"gen": 10}), make_step({"gen": 10}, tokens=None)]
    found = decompose(before, [make_step({"gen": 10})])
    assert found.total == 0.0
    (remark,) = found.remarks
    assert remark.startswith("1 of 2 steps before report no tokens")


def test_gpus_count_by_the_seconds_they_were_held():
    before = [make_step({"gen": 30}, gpus=8), make_step({"gen": 10}, gpus=16)]
    found = decompose(before, before)
    assert found.before.gpus == 10.0
    assert found.before.throughput == pytest.approx(2_000 / (30 * 8 + 10 * 16))


def test_seconds_of_steps_without_stages_are_unattributed():
    found = decompose([make_step({"gen": 10})], [make_step({}, unattributed_s=10)])
    unattributed = found.part("unattributed")
    assert unattributed is not None
    assert (unattributed.before, unattributed.after) == (0.0, 10.0)
    assert found.total == 0.0
    assert found.remarks == ("1 of 1 steps after report no stage: their seconds are unattributed",)


@pytest.mark.parametrize("duration_s", [None, 0.0, -1.0, math.inf, math.nan])
def test_without_closed_steps_nothing_is_known(duration_s: float | None):
    opened = replace(make_step({"gen": 10}), duration_s=duration_s)
    for window in ([], [opened]):
        found = decompose(window, [make_step({"gen": 10})])
        assert (found.quantity, found.total, found.parts) == (None, None, ())
        assert found.reason == "no closed step in the window before"
        assert found.before.num_steps == 0
    assert decompose([], []).reason == "no closed step in the window before and after"


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_the_logarithmic_mean_lies_between_the_others(one: float, other: float):
    mean = log_mean(one, other)
    assert math.sqrt(one * other) <= mean * (1 + 1e-9)
    assert mean <= (one + other) / 2 * (1 + 1e-9)
    assert mean == pytest.approx(log_mean(other, one))


def test_the_logarithmic_mean_of_neighbours_is_precise():
    one, other = 1.0, 1.0 + 2**-40
    assert log_mean(one, other) == pytest.approx((one + other) / 2, rel=1e-15)


def test_parts_follow_the_order_in_which_a_step_runs_them():
    found = decompose(
        [make_step({"update_actor": 1, "own_stage": 1, "gen": 1})], [make_step({"reward": 1})]
    )
    assert [part.name for part in found.parts] == [
        "tokens",
        "gpus",
        "gen",
        "reward",
        "update_actor",
        "own_stage",
        "unattributed",
    ]
