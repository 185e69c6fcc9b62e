import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole.conventions import stages
from longpole_server.analysis.ledger import assemble_step
from longpole_server.model.facts import RunFacts
from longpole_server.model.step import Step
from support.steps import NS, inputs, loop, read_log, span, timers

ASYNC = RunFacts("run", "run", mode="fully_async")


def shares_of(step: Step) -> dict[str, float]:
    return {stage.stage: stage.exclusive_s for stage in step.stages}


def codes(step: Step) -> list[str]:
    return [note.code for note in step.notes]


def assert_adds_up(step: Step):
    assert step.duration_s is not None
    parts = math.fsum(stage.exclusive_s for stage in step.stages)
    if step.stages:
        assert step.unattributed_s is not None
        assert step.unattributed_s >= 0
        assert parts + step.unattributed_s == pytest.approx(step.duration_s, abs=1e-9)
    else:
        assert step.unattributed_s is None


class TestSpans:
    def test_sequence_with_time_between(self):
        step = assemble_step(
            inputs([loop(0, 100), span("gen", 0, 60), span("update_actor", 62, 95)])
        )
        assert shares_of(step) == {"gen": 60, "update_actor": 33}
        assert step.unattributed_s == pytest.approx(7)
        assert (step.closed_by, step.duration_s, step.start_ns) == ("loop", 100, 0)
        gen = step.stage("gen")
        assert gen is not None
        assert (gen.share_ratio, gen.inclusive_s, gen.source) == (0.6, 60, "span")
        assert gen.windows == ((0, 60 * NS),)

    def test_parent_keeps_what_children_leave(self):
        step = assemble_step(
            inputs(
                [
                    loop(0, 100),
                    span("gen", 0, 60, span_id="g", parent="loop"),
                    span("reward", 20, 30, span_id="r", parent="g"),
                ]
            )
        )
        assert shares_of(step) == {"gen": 50, "reward": 10}
        assert "stage.overlap" not in codes(step)
        gen = step.stage("gen")
        assert gen is not None
        assert gen.inclusive_s == 60

    def test_nesting_by_containment_where_no_parent_is_known(self):
        step = assemble_step(inputs([loop(0, 10), span("gen", 0, 9), span("reward", 3, 5)]))
        assert shares_of(step) == {"gen": 7, "reward": 2}
        assert codes(step) == []

    def test_overlapping_siblings_go_to_the_one_that_ends_last(self):
        step = assemble_step(
            inputs(
                [
                    loop(0, 100),
                    span("gen", 0, 60, span_id="g", parent="loop"),
                    span("reward", 50, 80, span_id="r", parent="loop"),
                ]
            )
        )
        assert shares_of(step) == {"gen": 50, "reward": 30}
        assert codes(step) == ["stage.overlap"]

    def test_contained_sibling_under_the_same_parent_loses(self):
        step = assemble_step(
            inputs(
                [
                    loop(0, 100),
                    span("gen", 0, 60, span_id="g", parent="loop"),
                    span("reward", 20, 40, span_id="r", parent="loop"),
                ]
            )
        )
        assert shares_of(step) == {"gen": 60, "reward": 0}
        assert codes(step) == ["stage.overlap"]

    def test_nested_stage_of_the_sibling_that_wins(self):
        step = assemble_step(
            inputs(
                [
                    loop(0, 100),
                    span("reward", 0, 50, span_id="r", parent="loop"),
                    span("gen", 10, 90, span_id="g", parent="loop"),
                    span("sleep_wake", 20, 30, span_id="s", parent="g"),
                ]
            )
        )
        assert shares_of(step) == {"gen": 70, "reward": 10, "sleep_wake": 10}

    def test_repeated_stage(self):
        step = assemble_step(
            inputs([loop(0, 100), *(span("update_actor", at, at + 5) for at in (10, 20, 30))])
        )
        update = step.stage("update_actor")
        assert update is not None
        assert update.exclusive_s == 15
        assert len(update.windows) == 3

    def test_unknown_stage_is_unattributed_with_a_note(self):
        step = assemble_step(inputs([loop(0, 100), span("gen", 0, 60), span("magic", 60, 90)]))
        assert shares_of(step) == {"gen": 60}
        assert step.unattributed_s == pytest.approx(40)
        assert codes(step) == ["stage.unknown"]

    def test_unknown_stage_between_parent_and_child(self):
        step = assemble_step(
            inputs(
                [
                    loop(0, 100),
                    span("gen", 0, 60, span_id="g", parent="loop"),
                    span("magic", 10, 50, span_id="m", parent="g"),
                    span("reward", 20, 30, span_id="r", parent="m"),
                ]
            )
        )
        assert shares_of(step) == {"gen": 50, "reward": 10}

    def test_many_windows_without_parents(self):
        windows = [span("update_actor", at, at + 0.5) for at in range(1, 2001)]
        step = assemble_step(inputs([loop(0, 3000), span("make_experience", 0, 2900), *windows]))
        assert shares_of(step) == {"make_experience": 1900, "update_actor": 1000}

    def test_a_step_that_generates_several_times_is_one(self):
        """verl's dynamic sampling runs its step's timer again until enough groups are left."""
        windows = ((0, 40), (41, 80), (81, 160))
        loops = [
            span("step", start, end, span_id=f"loop{index}", is_loop=True)
            for index, (start, end) in enumerate(windows)
        ]
        stages = [
            span("gen", start, start + 38, parent=f"loop{index}")
            for index, (start, _) in enumerate(windows)
        ]
        update = span("update_actor", 120, 150, parent="loop2")
        step = assemble_step(inputs([*loops, *stages, update]))
        assert (step.closed_by, step.duration_s) == ("loop", 160)
        assert shares_of(step) == {"gen": 114, "update_actor": 30}
        assert_adds_up(step)

    def test_parents_that_form_a_ring(self):
        step = assemble_step(
            inputs(
                [
                    loop(0, 100),
                    span("gen", 0, 60, span_id="a", parent="b"),
                    span("reward", 20, 70, span_id="b", parent="a"),
                ]
            )
        )
        assert_adds_up(step)

    def test_other_processes_are_lanes(self):
        step = assemble_step(
            inputs(
                [
                    loop(0, 100),
                    span("gen", 0, 60),
                    span("update_actor", 0, 90, pid=2, role="trainer"),
                ]
            )
        )
        assert shares_of(step) == {"gen": 60}

    def test_union_of_ledger_roles_without_a_loop(self):
        step = assemble_step(
            inputs(
                [
                    span("gen", 0, 60, pid=2, role="hybrid"),
                    span("gen", 1, 61, pid=3, role="hybrid"),
                    span("update_actor", 61, 90, pid=2, role="hybrid"),
                    span("update_actor", 61, 91, pid=3, role="hybrid"),
                    span("reward", 0, 99, pid=4, role="reward"),
                ],
                successor_start_s=100,
            )
        )
        assert shares_of(step) == {"gen": 61, "update_actor": 30}
        assert (step.closed_by, step.duration_s) == ("successor", 100)
        assert_adds_up(step)

    def test_processes_without_a_role(self):
        step = assemble_step(inputs([span("gen", 0, 60, role="")], successor_start_s=80))
        assert shares_of(step) == {"gen": 60}

    def test_open_step_lists_what_has_ended(self):
        step = assemble_step(inputs([span("gen", 10, 60)]))
        assert (step.closed_by, step.end_ns, step.duration_s) == (None, None, None)
        assert step.start_ns == 10 * NS
        assert step.unattributed_s is None
        assert [(stage.stage, stage.share_ratio) for stage in step.stages] == [("gen", None)]

    def test_outside_ends_where_the_next_step_starts(self):
        step = assemble_step(
            inputs(
                [
                    loop(0, 100),
                    span("gen", 0, 60),
                    span("testing", 100, 130),
                    span("save_checkpoint", 95, 105),
                ],
                successor_start_s=120,
            )
        )
        assert shares_of(step) == {"gen": 60, "save_checkpoint": 5}
        assert {outside.stage: outside.duration_s for outside in step.outside} == {
            "testing": 20,
            "save_checkpoint": 5,
        }

    def test_sync_phases_are_no_stages(self):
        step = assemble_step(
            inputs(
                [
                    loop(0, 10),
                    span("update_weights", 0, 8),
                    span("update_weights", 2, 3, sync_phase="transfer"),
                ]
            )
        )
        assert shares_of(step) == {"update_weights": 8}

    def test_gen_of_separate_pools_is_a_wait(self):
        step = assemble_step(inputs([loop(0, 10), span("gen", 0, 8)], run=ASYNC))
        assert shares_of(step) == {"trainer_wait": 8}

    def test_span_sent_twice_counts_once(self):
        twice = [span("gen", 0, 60, span_id="g", parent="loop")] * 2
        step = assemble_step(inputs([loop(0, 100), *twice]))
        assert shares_of(step) == {"gen": 60}

    def test_compound_stage_says_what_it_includes(self):
        step = assemble_step(inputs([loop(0, 10), span("make_experience", 0, 8)]))
        assert step.stages[0].includes == ("reward", "old_log_prob", "ref", "values", "adv")

    @given(
        st.lists(
            st.tuples(
                st.sampled_from([*stages.STAGES, "magic"]),
                st.integers(0, 10**13),
                st.integers(0, 10**13),
                st.integers(-1, 8),
            ),
            max_size=10,
        ),
        st.booleans(),
    )
    def test_parts_add_up(self, rows: list[tuple[str, int, int, int]], with_loop: bool):
        spans = [
            span(
                stage,
                min(start, end) / NS,
                max(start, end) / NS,
                span_id=f"s{index}",
                parent=f"s{parent}" if parent >= 0 else "loop",
            )
            for index, (stage, start, end, parent) in enumerate(rows)
        ]
        if with_loop:
            spans.append(loop(1000.123456789, 8123.987654321))
        step = assemble_step(inputs(spans, successor_start_s=20_000))
        if step.duration_s is not None:
            assert_adds_up(step)
            assert all(stage.exclusive_s <= stage.inclusive_s + 1e-9 for stage in step.stages)


class TestScalars:
    def test_verl_timers(self):
        scalars = timers({"gen": 60, "old_log_prob": 5, "update_actor": 30}, 100) | {
            "timing_s/agent_loop/generate_sequences/max": 59,
            "timing_s/agent_loop/num_preempted/max": -1,
            "timing_s/agent_loop/slowest/response_length": 8192,
            "timing_s/generation_timing/topk_ratio": 0.3,
            "timing_s/start_profile": 0.1,
        }
        step = assemble_step(inputs((), scalars))
        assert shares_of(step) == {"gen": 60, "old_log_prob": 5, "update_actor": 30}
        assert step.unattributed_s == pytest.approx(5)
        assert (step.closed_by, step.duration_s) == ("metrics", 100)
        assert step.end_ns == 1000 * NS
        assert step.start_ns == 900 * NS
        assert codes(step) == []

    def test_end_hint_places_a_step_without_times(self):
        given = inputs((), timers({"gen": 60}, 100), scalars_ns=None)
        step = assemble_step(given)
        assert (step.start_ns, step.end_ns) == (-100 * NS, 0)

    def test_checkpoint_inside_when_it_fits(self):
        step = assemble_step(inputs((), timers({"gen": 60, "save_checkpoint": 35}, 100)))
        assert shares_of(step) == {"gen": 60, "save_checkpoint": 35}
        assert step.outside == ()

    def test_checkpoint_outside_when_it_does_not_fit(self):
        step = assemble_step(inputs((), timers({"gen": 90, "save_checkpoint": 35}, 100)))
        assert shares_of(step) == {"gen": 90}
        assert [(outside.stage, outside.duration_s) for outside in step.outside] == [
            ("save_checkpoint", 35)
        ]

    def test_testing_outside_and_checkpoint_inside(self):
        step = assemble_step(
            inputs((), timers({"gen": 90, "save_checkpoint": 8, "testing": 70}, 100))
        )
        assert shares_of(step) == {"gen": 90, "save_checkpoint": 8}
        assert [outside.stage for outside in step.outside] == ["testing"]

    def test_one_step_off_counts_the_sync_once(self):
        scalars = timers(
            {"gen": 5, "sync_rollout_weights": 20, "update_weights": 18, "generate_async": 70}, 60
        )
        step = assemble_step(inputs((), scalars))
        assert shares_of(step) == {"update_weights": 20, "trainer_wait": 5}
        sync = step.stage("update_weights")
        assert sync is not None
        assert sync.inclusive_s == 20

    def test_fully_async_prefix_twice(self):
        scalars = timers({"gen": 20, "update_actor": 60, "timing_s/param_sync": 10}, 100)
        step = assemble_step(inputs((), scalars))
        assert shares_of(step) == {"update_actor": 60, "update_weights": 10, "trainer_wait": 20}

    def test_sum_over_the_step_is_scaled(self):
        step = assemble_step(inputs((), timers({"gen": 80, "update_actor": 120}, 100)))
        assert shares_of(step) == pytest.approx({"gen": 40, "update_actor": 60})
        assert codes(step) == ["stage.sum_exceeds_step"]
        assert_adds_up(step)

    def test_sum_over_the_step_by_rounding(self):
        step = assemble_step(inputs((), timers({"gen": 80, "update_actor": 20.5}, 100)))
        assert codes(step) == []
        assert_adds_up(step)

    def test_unknown_and_impossible_timers(self):
        scalars = timers({"gen": 60, "magic": 10, "adv": -3, "ref": math.nan}, 100)
        step = assemble_step(inputs((), scalars))
        assert shares_of(step) == {"gen": 60}
        assert sorted(codes(step)) == ["stage.unknown", "time.impossible"]

    def test_timer_under_another_name(self):
        step = assemble_step(inputs((), timers({"gen": 60, "compute_log_prob": 10}, 100)))
        assert shares_of(step) == {"gen": 60, "old_log_prob": 10}

    def test_validation_line_is_no_step(self):
        step = assemble_step(inputs((), {"val-core/openai/gsm8k/acc/mean@1": 0.4}))
        assert (step.duration_s, step.closed_by, step.stages) == (None, None, ())

    def test_step_time_alone(self):
        step = assemble_step(inputs((), {"timing_s/step": 10.0}))
        assert (step.duration_s, step.unattributed_s, step.stages) == (10.0, None, ())

    def test_nothing_at_all(self):
        assert assemble_step(inputs()).duration_s is None

    @given(
        st.dictionaries(
            st.sampled_from(
                [
                    *("gen", "reward", "old_log_prob", "ref", "adv", "update_actor", "testing"),
                    *("save_checkpoint", "update_weights", "sync_rollout_weights", "magic"),
                ]
            ),
            st.floats(0, 1e4),
        ),
        st.floats(1e-3, 1e5),
    )
    def test_parts_add_up(self, seconds: dict[str, float], step_s: float):
        assert_adds_up(assemble_step(inputs((), timers(seconds, step_s))))


@pytest.mark.parametrize(
    ("scalars", "expected", "unattributed_s"),
    [
        pytest.param(
            {
                "timing/generation": 60.0,
                "timing/make_experience": 20.0,
                "timing/ppo_train": 15.0,
                "timing/broadcast": 5.0,
                "timing/step_total": 100.0,
            },
            {"gen": 60, "make_experience": 20, "update_actor": 15, "update_weights": 5},
            0,
            id="openrlhf",
        ),
        pytest.param(
            {
                "timing/step": 100.0,
                "timing/generate": 50.0,
                "timing/fwd_logprobs_values_reward": 10.0,
                "timing/train_critic_and_policy": 30.0,
                "timing/critic_train": 9.0,
                "timing/policy_train": 20.0,
                "timing/sync_weights": 4.0,
                "timing/eval": 70.0,
            },
            {
                "gen": 50,
                "old_log_prob": 10,
                "update_critic": 9,
                "update_actor": 21,
                "update_weights": 4,
            },
            6,
            id="skyrl",
        ),
        pytest.param(
            {
                "timing/train/total_step_time": 100.0,
                "timing/train/generation": 50.0,
                "timing/train/policy_and_reference_logprobs": 10.0,
                "timing/train/policy_training": 25.0,
                "timing/train/prepare_for_generation/total": 8.0,
                "timing/train/prepare_for_generation/transfer_and_update_weights": 6.0,
                "timing/train/valid_tokens_per_sec_per_gpu": 900.0,
                "timing/train/data_processing": 3.0,
                "timing/train/overlong_filter": 2.0,
            },
            {
                "prepare": 3,
                "gen": 50,
                "old_log_prob": 10,
                "update_actor": 25,
                "sleep_wake": 2,
                "update_weights": 6,
            },
            4,
            id="nemo_rl",
        ),
        pytest.param(
            {
                "perf/step_time": 100.0,
                "perf/train_wait_time": 70.0,
                "perf/rollout_time": 60.0,
                "perf/update_weights_time": 5.0,
                "perf/train_time": 30.0,
                "perf/actor_train_time": 20.0,
                "perf/log_probs_time": 6.0,
                "perf/tokens_per_gpu_per_sec": 1000.0,
            },
            {
                "gen": 60,
                "update_weights": 5,
                "trainer_wait": 5,
                "update_actor": 20,
                "old_log_prob": 6,
            },
            4,
            id="slime",
        ),
        pytest.param(
            {
                "perf/step_time": 100.0,
                "perf/train_wait_time": 10.0,
                "perf/rollout_time": 60.0,
                "perf/train_time": 90.0,
                "perf/actor_train_time": 80.0,
            },
            {"trainer_wait": 10, "update_actor": 80},
            10,
            id="slime with the rollout running beside",
        ),
        pytest.param(
            {
                "perf/step_time": 100.0,
                "perf/train_wait_time": 10.0,
                "perf/rollout_time": 60.0,
                "perf/update_weights_time": 4.0,
                "perf/train_time": 90.0,
                "perf/actor_train_time": 80.0,
            },
            {"trainer_wait": 6, "update_weights": 4, "update_actor": 80},
            10,
            id="slime with the rollout running beside and weights sent in the wait",
        ),
        pytest.param(
            {
                "perf/step_time": 150.0,
                "perf/train_wait_time": 100.0,
                "perf/rollout_time": 60.0,
                "perf/update_weights_time": 5.0,
                "perf/save_model_time": 30.0,
                "perf/train_time": 50.0,
                "perf/actor_train_time": 45.0,
            },
            {
                "gen": 60,
                "update_weights": 5,
                "save_checkpoint": 30,
                "trainer_wait": 5,
                "update_actor": 45,
            },
            5,
            id="slime with a checkpoint in what it calls waiting",
        ),
        pytest.param(
            {
                "perf/step_time": 150.0,
                "perf/train_wait_time": 100.0,
                "perf/rollout_time": 60.0,
                # Saving wakes the model up and puts it to sleep again.
                "perf/wake_up_time": 10.0,
                "perf/sleep_time": 6.0,
                "perf/save_model_time": 30.0,
                "perf/train_time": 50.0,
                "perf/actor_train_time": 50.0,
            },
            {
                "gen": 60,
                "sleep_wake": 16,
                "save_checkpoint": 24,
                "trainer_wait": 0,
                "update_actor": 50,
            },
            0,
            id="slime with a checkpoint that holds some of the others",
        ),
        pytest.param(
            {
                "timing/step": 100.0,
                "timing/generate": 50.0,
                "timing/train_critic_and_policy": 25.0,
                "timing/save_checkpoints": 20.0,
                "timing/cleanup_old_checkpoints": 2.0,
                "timing/sync_weights": 5.0,
                "timing/eval": 30.0,
                "timing/eval_generate": 28.0,
            },
            {"gen": 50, "update_actor": 25, "save_checkpoint": 20, "update_weights": 5},
            0,
            id="skyrl with a checkpoint in its step",
        ),
        pytest.param(
            {
                "time/total": 60.0,
                "time/training": 30.0,
                "time/trainer_waiting_for_data": 29.0,
                "time/weight_sync": 8.0,
            },
            {"update_actor": 30, "trainer_wait": 29},
            1,
            id="open-instruct with the weights sent beside the wait",
        ),
        pytest.param(
            {
                "timing_s/step": 100.0,
                "timing_s/wait_prev_gen": 40.0,
                "timing_s/sync_rollout_weights": 5.0,
                "timing_s/generate_sequences": 70.0,
                "timing_s/update_actor": 45.0,
                "timing_s/verify": 4.0,
            },
            {"trainer_wait": 40, "update_weights": 5, "update_actor": 45, "reward": 4},
            6,
            id="verl's one_step_off before it called the wait gen",
        ),
        pytest.param(
            {
                "time/step": 100.0,
                "time/wait_for_batch": 30.0,
                "time/forward_backward": 60.0,
                "time/broadcast_weights": 5.0,
            },
            {"trainer_wait": 30, "update_actor": 60, "update_weights": 5},
            5,
            id="prime_rl",
        ),
        pytest.param(
            {"step_time": 10.0, "profiling/Time taken: GRPOTrainer.vLLM.generate": 6.0},
            {"gen": 6},
            4,
            id="trl",
        ),
        pytest.param(
            {"timing/gen": 50.0, "timing/update_actor": 40.0, "timing/step": 100.0},
            {"gen": 50, "update_actor": 40},
            10,
            id="first verl",
        ),
    ],
)
def test_other_frameworks(
    scalars: dict[str, float], expected: dict[str, float], unattributed_s: float
):
    step = assemble_step(inputs((), scalars, run=RunFacts("run", "run")))
    assert shares_of(step) == pytest.approx(expected)
    assert step.unattributed_s == pytest.approx(unattributed_s, abs=1e-9)
    assert_adds_up(step)


@pytest.mark.parametrize(
    "scalars",
    [
        {"timeperf/rollout": 50.0, "timeperf/train_step": 30.0},
        {"time/step_generate": 50.0, "time/step_train": 30.0, "time/step_total": 0.0},
    ],
    ids=["areal", "roll"],
)
def test_frameworks_without_a_step_time(scalars: dict[str, float]):
    assert assemble_step(inputs((), scalars)).duration_s is None
    step = assemble_step(inputs((), scalars, successor_start_s=2000))
    assert (step.duration_s, step.closed_by, step.unattributed_s) == (80, "successor", 0)
    assert shares_of(step) == {"gen": 50, "update_actor": 30}


class TestBoth:
    def test_spans_win_for_time_and_scalars_fill_the_rest(self):
        scalars = timers({"gen": 55, "old_log_prob": 8, "update_actor": 33}, 99) | {
            "perf/mfu/actor": 0.4,
            "perf/total_num_tokens": 1000.0,
        }
        step = assemble_step(
            inputs([loop(0, 100), span("gen", 0, 60), span("update_actor", 70, 95)], scalars)
        )
        assert shares_of(step) == {"gen": 60, "old_log_prob": 8, "update_actor": 25}
        assert [stage.source for stage in step.stages] == ["span", "scalar", "span"]
        assert (step.closed_by, step.duration_s) == ("loop", 100)
        assert (step.mfu_actor, step.tokens_total) == (0.4, 1000)
        assert_adds_up(step)

    def test_a_timer_that_does_not_fit_beside_the_spans_is_left_out(self):
        scalars = timers({"gen": 60, "old_log_prob": 30}, 100)
        step = assemble_step(inputs([loop(0, 100), span("gen", 0, 90)], scalars))
        assert shares_of(step) == {"gen": 90}

    def test_loop_span_with_scalars_only_inside(self):
        step = assemble_step(inputs([loop(0, 100)], timers({"gen": 60, "update_actor": 30}, 98)))
        assert shares_of(step) == {"gen": 60, "update_actor": 30}
        assert step.unattributed_s == pytest.approx(10)
        assert step.closed_by == "loop"

    def test_spans_closed_by_metrics(self):
        step = assemble_step(inputs([span("gen", 5, 60)], timers({"gen": 55}, 70)))
        assert (step.start_ns, step.end_ns) == (5 * NS, 75 * NS)
        assert step.closed_by == "metrics"
        assert_adds_up(step)

    def test_tokens_of_the_loop_win(self):
        step = assemble_step(
            inputs([loop(0, 10, tokens_total=500)], {"perf/total_num_tokens": 400.0})
        )
        assert step.tokens_total == 500


@pytest.mark.parametrize(
    "name",
    [
        "verl_0.9.1_real.jsonl",
        "verl_0.9.1_real_console.log",
        "verl_console_long_tail.log",
        "verl_console_update_inefficient.log",
        "verl_file_balanced.jsonl",
        "verl_file_sync_weights.jsonl",
    ],
)
def test_sample_logs_add_up(name: str):
    closed = 0
    for number, scalars in read_log(name):
        step = assemble_step(inputs((), scalars, step=number))
        if step.duration_s is not None:
            closed += 1
            assert_adds_up(step)
            assert set(codes(step)) <= {"mfu.unknown"}
    assert closed >= 3


def test_a_timer_of_what_spans_show_after_the_step_is_not_put_into_it():
    spans = [
        loop(0.0, 100.0),
        span("gen", 0.0, 40.0, span_id="gen", parent="loop"),
        span("testing", 100.0, 120.0, span_id="testing", parent="loop"),
    ]
    made = assemble_step(inputs(spans, {"timing_s/gen": 40.0, "timing_s/testing": 20.0}))
    assert [stage.stage for stage in made.stages] == ["gen"]
    assert made.unattributed_s == 60
    assert [(each.stage, each.duration_s) for each in made.outside] == [("testing", 20.0)]
