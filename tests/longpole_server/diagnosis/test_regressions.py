import math
import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from longpole_server.diagnosis import diagnose
from longpole_server.diagnosis.baseline import (
    Baseline,
    describe_configuration,
    summarise_past,
)
from longpole_server.model.diagnosis import Finding
from longpole_server.model.facts import RunFacts, StepFacts
from support.steps import facts

RUN = RunFacts("run", "run", system="verl", gpu_count=8)
SECONDS = {"gen": 60.0, "old_log_prob": 8.0, "update_actor": 30.0, "update_weights": 6.0}


def make_steps(
    first: int,
    count: int,
    seconds: Mapping[str, float] | None = None,
    tokens: float | None = 1e6,
    *,
    jitter: float = 0.03,
    every: Mapping[str, tuple[int, float]] | None = None,
    run: RunFacts = RUN,
) -> list[StepFacts]:
    chance = random.Random(first)
    steps: list[StepFacts] = []
    for number in range(first, first + count):
        spent = {
            stage: value * chance.uniform(1 - jitter, 1 + jitter)
            for stage, value in (SECONDS | dict(seconds or {})).items()
        }
        inside_s = sum(spent.values()) + 2
        for stage, (period, length_s) in (every or {}).items():
            if number % period == 0:
                spent[stage] = length_s
        scalars = {} if tokens is None else {"perf/total_num_tokens": tokens}
        steps.append(facts(spent, scalars, run=run, step=number, step_s=inside_s))
    return steps


def summarise(steps: list[StepFacts]) -> Baseline:
    baseline = summarise_past([step.step for step in steps], {}, describe_configuration(RUN))
    assert baseline is not None
    return baseline


def find(
    steps: list[StepFacts], baseline: Baseline, recent: Baseline | None = None
) -> dict[str, Finding]:
    diagnosis = diagnose(RUN, steps, replace(baseline, recent=recent), attempt_starts={1: 1})
    return {
        finding.code: finding
        for finding in diagnosis.findings
        if finding.code.startswith(("regression.", "shape."))
    }


USUAL = summarise(make_steps(2, 20))


def test_nothing_changed():
    assert find(make_steps(101, 20), USUAL, USUAL) == {}
    assert find(make_steps(101, 1), USUAL, USUAL) == {}


def test_a_stage_that_takes_longer():
    found = find(make_steps(101, 20, {"update_weights": 12.0}), USUAL, USUAL)
    (finding,) = found.values()
    assert finding.code == "regression.update_weights"
    assert (finding.severity, finding.first_step, finding.last_step) == ("warning", 101, 120)
    assert [row.metric for row in finding.evidence] == [
        "stage_s/update_weights",
        "stage_s/update_weights/recent",
    ]
    assert finding.summary.startswith("Update weights takes 12")
    assert "in the attempt's first steady steps and 6" in finding.summary


def test_more_tokens_are_another_shape_and_no_regression():
    longer = {"gen": 120.0, "old_log_prob": 16.0, "update_actor": 60.0}
    found = find(make_steps(101, 20, longer, 2e6), USUAL)
    (finding,) = found.values()
    assert finding.code == "shape.tokens"
    assert finding.summary.startswith(
        "Steps hold 100 % more tokens than in the attempt's first steady steps"
    )
    parts = {row.metric: row.value for row in finding.evidence if row.metric != "tokens_total"}
    assert {"log_change/tokens", "log_change/gen", "log_change/unattributed"} < set(parts)
    total = parts.pop("log_change/total")
    assert math.fsum(parts.values()) == pytest.approx(total, abs=1e-9)


def test_longer_than_the_tokens_explain():
    longer = {"gen": 180.0, "old_log_prob": 16.0, "update_actor": 60.0}
    found = find(make_steps(101, 20, longer, 2e6), USUAL)
    (finding,) = found.values()
    assert finding.code == "regression.gen"
    reference = finding.evidence[0].compared_with
    assert reference is not None
    assert reference.value == pytest.approx(120, rel=0.02)
    assert "usual for as many tokens were 12" in finding.summary


def test_weight_sync_does_not_grow_with_tokens():
    longer = {"gen": 120.0, "old_log_prob": 16.0, "update_actor": 60.0, "update_weights": 12.0}
    assert set(find(make_steps(101, 20, longer, 2e6), USUAL)) == {
        "regression.update_weights",
        "shape.tokens",
    }


def test_fewer_tokens_cost_more_each_which_is_no_regression():
    shorter = {"gen": 45.0, "old_log_prob": 5.0, "update_actor": 16.0}
    assert set(find(make_steps(101, 20, shorter, 5e5), USUAL)) == {"shape.tokens"}


def test_tokens_that_are_not_reported():
    usual = summarise(make_steps(2, 20, tokens=None))
    found = find(make_steps(101, 20, {"gen": 120.0}, None), usual)
    assert set(found) == {"regression.gen"}
    assert "for as many tokens" not in found["regression.gen"].summary


def test_slow_creep_shows_against_the_start_only():
    recent = summarise(make_steps(900, 20, {"gen": 88.0}))
    found = find(make_steps(920, 20, {"gen": 90.0}), USUAL, recent)
    (finding,) = found.values()
    assert [row.metric for row in finding.evidence] == ["stage_s/gen"]
    assert "just before" not in finding.summary


def test_a_jump_in_a_run_that_had_become_faster():
    recent = summarise(make_steps(900, 20, {"gen": 35.0}))
    found = find(make_steps(920, 20, {"gen": 58.0}), USUAL, recent)
    (finding,) = found.values()
    assert [row.metric for row in finding.evidence] == ["stage_s/gen/recent"]
    assert finding.summary.endswith("in the steps just before.")


def test_scatter_of_single_steps_is_no_regression():
    restless = summarise(make_steps(2, 20, jitter=0.4))
    assert find(make_steps(101, 1, {"gen": 80.0}, jitter=0.0), restless) == {}
    assert set(find(make_steps(101, 20, {"gen": 100.0}, jitter=0.4), restless)) == {
        "regression.gen"
    }


@pytest.mark.parametrize("first", [101, 105, 109])
@pytest.mark.parametrize("count", [7, 20, 23])
def test_validation_is_compared_by_what_one_takes(first: int, count: int):
    usual = summarise(make_steps(2, 40, every={"testing": (10, 60.0)}))
    as_before = make_steps(first, count, every={"testing": (10, 62.0)})
    assert find(as_before, usual) == {}
    slower = make_steps(first, count, every={"testing": (10, 140.0)})
    found = find(slower, usual)
    if any(step.step.step % 10 == 0 for step in slower):
        assert set(found) == {"regression.testing"}
        assert "takes 140 s each time" in found["regression.testing"].summary
    else:
        assert found == {}


def test_more_frequent_validation_is_no_slower_one():
    usual = summarise(make_steps(2, 40, every={"testing": (10, 60.0)}))
    assert find(make_steps(101, 20, every={"testing": (2, 60.0)}), usual) == {}


def test_other_attempts_and_configurations_are_not_compared():
    slow = make_steps(101, 20, {"gen": 120.0})
    assert find(slow, replace(USUAL, attempt=2)) == {}
    assert find(slow, replace(USUAL, configuration="gpus=4")) == {}
    more_gpus = [replace(step, step=replace(step.step, gpu_count=16)) for step in slow]
    assert find(more_gpus, replace(USUAL, gpu_count=8)) == {}


def test_of_mixed_attempts_only_its_own_count():
    resumed = [
        replace(step, step=replace(step.step, attempt=2))
        for step in make_steps(111, 10, {"gen": 60.0})
    ]
    steps = [*make_steps(101, 10, {"gen": 200.0}), *resumed]
    assert find(steps, replace(USUAL, attempt=2)) == {}
    found = find(steps, replace(USUAL, attempt=1))
    assert found["regression.gen"].last_step == 110


def test_small_stages_do_not_matter():
    usual = summarise(make_steps(2, 20, {"adv": 0.1}))
    assert find(make_steps(101, 20, {"adv": 0.4}), usual) == {}


def test_settings_that_make_steps_incomparable():
    run = replace(
        RUN,
        model_name="qwen3-8b",
        config={"data.train_batch_size": "256", "trainer.project_name": "math"},
    )
    described = describe_configuration(run)
    assert described == describe_configuration(
        replace(run, config={**run.config, "trainer.project_name": "code"})
    )
    others = (
        replace(run, gpu_count=16),
        replace(run, response_length_cap=4_096),
        replace(run, model_name="qwen3-32b"),
        replace(run, config={"data.train_batch_size": "512"}),
    )
    assert len({described, *map(describe_configuration, others)}) == 5


def make_long_tail(
    first: int,
    count: int,
    *,
    slower: float = 1.0,
    prompt: float = 300.0,
    response: float = 400.0,
    spread: float = 0.4,
) -> list[StepFacts]:
    """Steps of 512 samples whose gen ends with a longest answer that is another one each time."""
    chance = random.Random(first)
    steps: list[StepFacts] = []
    for number in range(first, first + count):
        longest = 4 * response * math.exp(chance.gauss(0.0, spread))
        mean = response * chance.uniform(0.97, 1.03)
        gen_s = slower * (2.0 + 0.03 * longest) * chance.uniform(0.98, 1.02)
        scalars = {
            "perf/total_num_tokens": 512 * (prompt + mean),
            "prompt_length/mean": prompt,
            "response_length/mean": mean,
            "response_length/max": longest,
        }
        spent = SECONDS | {"gen": gen_s}
        steps.append(facts(spent, scalars, run=RUN, step=number, step_s=sum(spent.values()) + 2))
    return steps


@pytest.mark.parametrize("first", range(100, 140))
def test_slower_engines_are_missed_where_the_longest_answer_scatters(first: int):
    usual = summarise(make_long_tail(1000 + first, 8))
    slower = make_long_tail(first, 7, slower=1.6)
    assert "regression.gen" in find(slower, usual)
    assert "regression.gen" not in find(make_long_tail(first, 7), usual)


def test_answers_that_grow_while_prompts_do_not_are_called_a_regression():
    usual = summarise(make_long_tail(2, 20, prompt=6000.0, spread=0.1))
    longer = make_long_tail(101, 20, prompt=6000.0, response=720.0, spread=0.1)
    found = find(longer, usual)
    assert set(found) == {"shape.tokens"}
    assert "% more response tokens than" in found["shape.tokens"].summary
    slower = make_long_tail(101, 20, prompt=6000.0, response=720.0, spread=0.1, slower=1.6)
    assert "usual for responses as long were" in find(slower, usual)["regression.gen"].summary


def test_shorter_answers_that_cost_more_each_are_no_regression():
    usual = summarise(make_long_tail(2, 20, spread=0.05))
    shorter = make_long_tail(101, 20, response=200.0, spread=0.05)
    assert "regression.gen" not in find(shorter, usual)


def test_a_past_that_had_begun_to_change_makes_no_regression():
    """Most of it has answers of one length, and noise alone makes a slope of these."""
    usual = summarise(
        [*make_long_tail(2, 18, spread=0.01), *make_long_tail(20, 2, response=720.0, spread=0.01)]
    )
    longer = make_long_tail(101, 5, response=720.0, spread=0.01)
    assert "regression.gen" not in find(longer, usual)


def test_prompts_that_grow_are_no_regression_of_gen():
    usual = summarise(make_long_tail(2, 20, spread=0.05))
    longer = make_long_tail(101, 20, prompt=900.0, slower=1.5, spread=0.05)
    assert "regression.gen" not in find(longer, usual)
