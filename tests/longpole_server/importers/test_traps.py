"""What bites a reader of frameworks' metrics: each pitfall by name."""

import json
from pathlib import Path

import pytest

from longpole.conventions.metrics import read_metric
from longpole_server.analysis.scalar_ledger import read_scalar_ledger, read_step_seconds
from longpole_server.importers import ImportedFacts, LogSource, import_facts

LOGS = Path(__file__).parents[2] / "data" / "logs"


def facts_of(name: str) -> ImportedFacts:
    return import_facts(LogSource.of_file(LOGS / name), "x")


def facts_of_rows(*rows: dict[str, float]) -> ImportedFacts:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    return import_facts(LogSource.of_bytes("metrics.jsonl", text.encode(), 10**18), "x")


def metric(facts: ImportedFacts, name: str, index: int = 0) -> float | None:
    return read_metric(name, facts.steps[index].scalars)


class TestPercent:
    def test_mfu_of_prime_rl_is_a_percentage(self) -> None:
        for name in ("prime_rl_trainer.log", "prime_rl_trainer_old.log", "prime_rl_trainer.jsonl"):
            assert metric(facts_of(name), "mfu_actor") == pytest.approx(0.352)

    def test_mfu_of_open_instruct_is_a_percentage(self) -> None:
        assert read_metric("mfu_actor", {"learner_mfu": 41.0}) == pytest.approx(0.41)

    def test_mfu_of_nemo_rl_is_a_fraction_that_its_console_prints_as_a_percentage(self) -> None:
        assert metric(facts_of("nemo_rl_console.log"), "mfu_actor") == pytest.approx(0.3171)
        scalars = {"performance/train_fp_utilization": 0.3171}
        assert read_metric("mfu_actor", scalars) == pytest.approx(0.3171)

    def test_the_pass_rate_of_dynamic_filtering_is_a_percentage_of_what_was_kept(self) -> None:
        facts = facts_of("openrlhf_console.log")
        assert metric(facts, "filtered_ratio") == pytest.approx(0.375)

    def test_a_pass_rate_that_is_no_percentage_is_not_used(self) -> None:
        assert read_metric("filtered_ratio", {"dynamic_filtering_pass_rate": 800.0}) is None

    def test_the_keep_rate_of_skyrl_is_a_fraction(self) -> None:
        assert read_metric("filtered_ratio", {"async/keep_rate": 0.75}) == pytest.approx(0.25)

    def test_truncation_on_prime_rls_console_is_a_percentage(self) -> None:
        text = (LOGS / "prime_rl_trainer.log").read_text("utf-8")
        text += (LOGS / "prime_rl_orchestrator.log").read_text("utf-8")
        facts = import_facts(LogSource.of_bytes("both", text.encode(), 0), "x")
        assert metric(facts, "truncated_ratio") == pytest.approx(0.125)

    def test_kv_usage_in_vllms_log_is_a_percentage_and_on_sglangs_a_fraction(self) -> None:
        facts = facts_of("skyrl_console.log")
        (window,) = facts.steps[0].engine_windows
        assert window.kv_usage_max_ratio == pytest.approx(0.425)
        assert window.prefix_hit_ratio == pytest.approx(0.61)


class TestMilliseconds:
    def test_scoring_of_asynchronous_trl_is_in_milliseconds_and_no_stage(self) -> None:
        scalars = {"step_time": 20.0, "queue_wait_time_s": 6.0, "scoring_time_ms": 4200.0}
        ledger = read_scalar_ledger(scalars, 1)
        assert [stage.stage for stage in ledger.inside] == ["trainer_wait"]

    def test_traces_of_areal_are_in_microseconds(self) -> None:
        step = facts_of("areal_trace.jsonl").steps[0].step
        gen = step.stage("gen")
        assert gen is not None
        assert gen.exclusive_s == pytest.approx(41.2)

    def test_clocks_of_prime_rl_have_units_of_their_own(self) -> None:
        seconds = [fact.step.duration_s for fact in facts_of("prime_rl_trainer.log").steps]
        assert seconds == [72.0, 956.0, pytest.approx(0.85)]


class TestClipRatio:
    def test_trls_clipped_completions_are_truncation_and_its_clip_ratio_is_ppos(self) -> None:
        facts = facts_of("trl_console.log")
        assert metric(facts, "truncated_ratio") == pytest.approx(0.125)
        assert metric(facts, "clip_fraction") == 0.0

    def test_openrlhfs_response_clip_ratio_is_no_ppo_clipping(self) -> None:
        assert read_metric("clip_fraction", {"response_clip_ratio": 0.3}) is None

    def test_rolls_mask_ratio_counts_what_is_kept_and_is_no_truncation(self) -> None:
        assert metric(facts_of("roll_console.log"), "truncated_ratio") is None


class TestCumulative:
    def test_trls_tokens_are_the_growth_of_its_counter(self) -> None:
        facts = facts_of("trl_console.log")
        assert [fact.step.tokens_total for fact in facts.steps] == [None, 4296, 4096]

    def test_growth_is_divided_among_the_steps_of_a_record(self) -> None:
        # 10 steps a record: 42960 tokens more are 4296 a step.
        facts = facts_of("trainer_state.json")
        assert [fact.step.tokens_total for fact in facts.steps] == [None, 4296, 4096]

    def test_growth_between_records_that_were_counted_is_not_known(self) -> None:
        lines = (LOGS / "trl_console.log").read_text("utf-8").splitlines(keepends=True)
        text = "".join(line for line in lines if line.startswith("{"))
        facts = import_facts(LogSource.of_bytes("log", text.encode(), 0), "x")
        assert [fact.step.tokens_total for fact in facts.steps] == [None, None, None]
        assert "step.counted" in [note.code for note in facts.notes]

    def test_a_counter_that_fell_belongs_to_a_training_started_again(self) -> None:
        rows = [
            {"step": step, "step_time": 20.0, "num_tokens": tokens, "reward/x": 0.0}
            for step, tokens in ((1, 1000.0), (2, 2000.0), (3, 500.0), (4, 1500.0))
        ]
        facts = facts_of_rows(*rows)
        assert [fact.step.tokens_total for fact in facts.steps] == [None, 1000, None, 1000]

    def test_totals_of_prime_rl_are_not_those_of_the_step(self) -> None:
        text = (LOGS / "prime_rl_orchestrator.jsonl").read_text("utf-8")
        row = json.loads(text.splitlines()[1])
        assert read_metric("tokens_total", row) == 750_000

    def test_efficiency_of_nemo_rl_grows_since_the_start_and_is_no_stage(self) -> None:
        scalars = {
            "timing/train/total_step_time": 60.0,
            "timing/train/exposed_generation": 20.0,
            "efficiency/idle/buffer_starvation_s": 900.0,
            "efficiency/idle/buffer_starvation_pct": 55.0,
        }
        ledger = read_scalar_ledger(scalars, 9)
        assert [(stage.stage, stage.exclusive_s) for stage in ledger.inside] == [
            ("trainer_wait", 20.0)
        ]


class TestPreviousStep:
    def test_rolls_step_total_is_that_of_the_step_before(self) -> None:
        facts = facts_of("roll_console.log")
        assert [fact.step.duration_s for fact in facts.steps] == [90.25, 89.5, 83.5]
        assert facts.steps[2].step.closed_by == "successor"

    def test_the_first_zero_is_no_time(self) -> None:
        facts = facts_of("roll_console.log")
        assert all(fact.step.duration_s for fact in facts.steps)

    def test_agentic_pipelines_of_roll_log_the_steps_own(self) -> None:
        assert facts_of("roll_agentic_console.log").steps[0].step.duration_s == 80.0


class TestWait:
    def test_generation_that_the_trainer_waits_for_is_a_wait(self) -> None:
        for scalars in (
            {"timing/train/total_step_time": 60.0, "timing/train/exposed_generation": 20.0},
            {"timing/step": 60.0, "timing/wait_for_generation_buffer": 20.0, "timing/x": 1.0},
            {"time/step": 60.0, "time/wait_for_batch": 20.0, "time/forward_backward": 30.0},
        ):
            found = {s.stage: s.exclusive_s for s in read_scalar_ledger(scalars, 1).inside}
            assert found["trainer_wait"] == 20.0
            assert "gen" not in found


class TestNested:
    def test_slimes_wait_holds_rollout_sleep_and_synchronisation(self) -> None:
        step = facts_of("slime_console.log").steps[1].step
        seconds = {stage.stage: stage.exclusive_s for stage in step.stages}
        assert seconds["gen"] == 58.0
        assert seconds["sleep_wake"] == 3.5
        assert seconds["update_weights"] == 6.5
        # 72.0 of waiting, of which 68.0 are these.
        assert seconds["trainer_wait"] == pytest.approx(4.0)
        assert sum(seconds.values()) + (step.unattributed_s or 0) == pytest.approx(112.0)

    def test_skyrls_training_holds_the_policys(self) -> None:
        step = facts_of("skyrl_console.log").steps[0].step
        update = step.stage("update_actor")
        assert update is not None
        assert update.exclusive_s == pytest.approx(14.5)

    def test_nemo_rls_preparation_holds_the_transfer(self) -> None:
        step = facts_of("nemo_rl_console.log").steps[0].step
        seconds = {stage.stage: stage.exclusive_s for stage in step.stages}
        assert seconds["sleep_wake"] == pytest.approx(1.2)
        assert seconds["update_weights"] == pytest.approx(3.9)

    def test_trls_blocks_lie_in_the_preparation(self) -> None:
        scalars = {
            "step_time": 30.0,
            "profiling/Time taken: GRPOTrainer._prepare_inputs": 20.0,
            "profiling/Time taken: GRPOTrainer.vLLM.generate": 12.0,
            "profiling/Time taken: GRPOTrainer._calculate_rewards": 3.0,
        }
        found = {s.stage: s.exclusive_s for s in read_scalar_ledger(scalars, 1).inside}
        assert found == {"gen": 12.0, "reward": 3.0}


class TestAxes:
    def test_slimes_optimiser_steps_are_averaged_into_their_rollout(self) -> None:
        facts = facts_of("slime_console.log")
        assert [fact.step.step for fact in facts.steps] == [0, 1]
        assert metric(facts, "grad_norm") == pytest.approx(0.6)
        assert metric(facts, "clip_fraction", 1) == pytest.approx(0.04)

    def test_slimes_three_axes_in_a_tracker_become_one(self) -> None:
        rows = [
            {"train/step": 0, "train/grad_norm": 0.5, "_step": 1},
            {"train/step": 1, "train/grad_norm": 0.7, "_step": 2},
            {"rollout/step": 0, "perf/train_time": 40.0, "perf/step_time": 100.0, "_step": 3},
            {"eval/step": 0, "eval/aime": 0.25, "_step": 4},
        ]
        facts = facts_of_tracker(rows)
        assert [fact.step.step for fact in facts.steps] == [0]
        assert metric(facts, "grad_norm") == pytest.approx(0.6)

    def test_two_calls_for_one_step_are_one_step(self) -> None:
        facts = facts_of_rows(
            {"step": 1, "async/staleness_mean": 1.5},
            {"step": 1, "timing/step": 50.0, "timing/run_training": 30.0},
        )
        assert len(facts.steps) == 1
        assert metric(facts, "staleness_mean") == 1.5

    def test_epochs_of_nemo_rl_count_on(self) -> None:
        assert [fact.step.step for fact in facts_of("nemo_rl_console.log").steps] == [1, 2, 3]

    def test_trls_blocks_in_wandb_belong_to_the_record_that_follows(self) -> None:
        facts = facts_of("wandb_trl.wandb")
        gen = facts.steps[1].step.stage("gen")
        # Two calls of 8 s, divided among the ten steps between two records.
        assert gen is not None
        assert gen.exclusive_s == pytest.approx(1.6)


class TestStaleness:
    def test_slime_reports_none_and_it_is_not_zero(self) -> None:
        assert metric(facts_of("slime_console.log"), "staleness_mean") is None

    def test_rolls_off_policy_ratio_is_a_mean_lag_in_steps(self) -> None:
        assert metric(facts_of("roll_console.log"), "staleness_mean") == pytest.approx(1.4)


class TestThroughput:
    def test_prime_rls_throughput_is_no_throughput_of_the_step_per_gpu(self) -> None:
        for name in ("prime_rl_trainer.log", "prime_rl_trainer.jsonl"):
            facts = facts_of(name)
            assert metric(facts, "throughput") is None
            assert facts.run.gpu_count is None

    def test_verls_under_the_same_name_is(self) -> None:
        assert read_metric("throughput", {"perf/throughput": 900.0}) == 900.0

    def test_slimes_rollout_rate_is_none_of_the_step(self) -> None:
        assert metric(facts_of("slime_console.log"), "throughput") is None

    def test_sequence_lengths_of_areal_hold_the_prompt(self) -> None:
        assert metric(facts_of("areal_console.log"), "response_length_mean") is None

    def test_a_rate_among_timers_is_no_stage(self) -> None:
        scalars = {
            "timing/train/total_step_time": 60.0,
            "timing/train/generation": 30.0,
            "timing/train/valid_tokens_per_sec_per_gpu": 1200.0,
        }
        assert [s.stage for s in read_scalar_ledger(scalars, 1).inside] == ["gen"]


class TestTwoProcesses:
    def test_trainer_and_orchestrator_of_prime_rl_share_a_key(self) -> None:
        sources = [
            LogSource.of_file(LOGS / name)
            for name in ("prime_rl_orchestrator.jsonl", "prime_rl_trainer.jsonl")
        ]
        for order in (sources, sources[::-1]):
            facts = import_facts(order, "x")
            assert [fact.step.duration_s for fact in facts.steps] == [72.0, 71.0]
            assert facts.steps[0].scalars["orchestrator/time/step"] == 70.0
            assert metric(facts, "staleness_max") == 3.0
            assert metric(facts, "reward_mean") == 0.625

    def test_in_one_file_they_are_no_second_attempt(self) -> None:
        text = "".join(
            (LOGS / f"prime_rl_{name}.jsonl").read_text("utf-8")
            for name in ("trainer", "orchestrator")
        )
        lines = sorted(text.splitlines(), key=lambda line: json.loads(line)["time"])
        facts = import_facts(LogSource.of_bytes("both", "\n".join(lines).encode(), 0), "x")
        assert [(fact.step.attempt, fact.step.duration_s) for fact in facts.steps] == [
            (1, 72.0),
            (1, 71.0),
        ]


def facts_of_tracker(rows: list[dict[str, float]]) -> ImportedFacts:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [",".join(names)]
    lines += [",".join(str(row.get(name, "")) for name in names) for row in rows]
    body = "\n".join(lines).encode()
    return import_facts(LogSource.of_bytes("history.csv", body, 10**18), "x")


def test_the_first_step_of_a_log_without_seconds_is_no_step_of_zero_seconds() -> None:
    assert read_step_seconds({"time/step": 0.0, "time/forward_backward": 1.0}) is None
