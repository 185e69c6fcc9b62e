import math
from dataclasses import replace

import pytest

from longpole_server.analysis.ledger import assemble_step
from longpole_server.diagnosis import diagnose, diagnose_step, make_baseline
from longpole_server.errors import ConfigError
from longpole_server.model.annotations import VerdictChange
from longpole_server.model.facts import RunFacts, StepFacts
from support.steps import facts, inputs, read_facts, samples

RUN = RunFacts("run", "run", system="verl", gpu_count=16)
LONG_GEN = {"gen": 100.0, "old_log_prob": 8.0, "update_actor": 30.0, "update_weights": 4.0}


@pytest.mark.parametrize(
    ("name", "verdict", "confidence"),
    [
        ("verl_console_long_tail.log", "rollout.long_tail", "medium"),
        ("verl_console_update_inefficient.log", "update.inefficient", "high"),
        ("verl_file_balanced.jsonl", "balanced", "low"),
        ("verl_file_sync_weights.jsonl", "sync.weights", "low"),
        ("verl_0.9.1_real.jsonl", "rollout.unexplained", "low"),
        ("verl_0.9.1_real_console.log", "rollout.unexplained", "low"),
    ],
)
def test_sample_logs(name: str, verdict: str, confidence: str):
    run, steps = read_facts(name)
    diagnosis = diagnose(run, steps)
    assert (diagnosis.verdict, diagnosis.confidence) == (verdict, confidence)
    assert sum(diagnosis.shares.values()) == pytest.approx(1, abs=1e-9)
    assert all(step.verdict == verdict for step in diagnosis.steps)
    assert {row.layer for row in diagnosis.evidence} >= {"outer"}
    assert diagnosis.throughput.gpus in (1, 16)


def test_summary_has_the_numbers():
    run, steps = read_facts("verl_console_long_tail.log")
    diagnosis = diagnose(run, steps)
    assert diagnosis.summary == (
        "The rollout waits for a few long samples: gen takes 71 % of each 211 s step; the slowest "
        "sample runs 2.3 times as long as the mean, with 5.4 times its tokens, and fills 98 % of "
        "gen; nobody reports preemptions, which would slow samples down as well. Fixing it would "
        "give back about 51.4 s a step."
    )


def test_first_step_is_left_out_of_a_file():
    run, steps = read_facts("verl_file_balanced.jsonl")
    diagnosis = diagnose(run, steps)
    assert (diagnosis.first_step, diagnosis.last_step, diagnosis.num_judged) == (1, 8, 7)
    assert [excluded.step for excluded in diagnosis.excluded] == [1]
    later = diagnose(run, steps, attempt_starts={1: 0})
    assert later.num_judged == 8


def test_one_step():
    many = samples([30.0] * 99 + [97.0], [1500] * 99 + [8000], preemptions=[0] * 100)
    step = facts(LONG_GEN, run=RUN, trajectories=many)
    diagnosis = diagnose_step(RUN, step)
    assert (diagnosis.verdict, diagnosis.confidence) == ("rollout.long_tail", "high")
    # 95 of 100 samples end at 30 s, the last at 97 s.
    assert diagnosis.recoverable_s_per_step == pytest.approx(67)
    loop_s = sum(LONG_GEN.values())
    assert diagnosis.recoverable_gpu_hours_per_day == pytest.approx(67 / loop_s * 16 * 24)


def test_gpu_hours_are_unknown_without_gpus():
    run = RunFacts("run", "run")
    step = facts(
        LONG_GEN, run=run, trajectories=samples([30.0] * 99 + [97.0], [1500] * 99 + [8000])
    )
    diagnosis = diagnose_step(run, step)
    assert diagnosis.recoverable_s_per_step is not None
    assert diagnosis.recoverable_gpu_hours_per_day is None


def test_no_closed_step():
    opened = StepFacts(assemble_step(inputs()))
    for steps in ([], [opened]):
        diagnosis = diagnose(RUN, steps)
        assert (diagnosis.verdict, diagnosis.confidence) == (None, None)
        assert diagnosis.shares == {}
        assert [note.code for note in diagnosis.data_quality] == ["no_closed_step"]


def test_steps_without_stages():
    bare = StepFacts(assemble_step(inputs((), {"timing_s/step": 10.0})), {"timing_s/step": 10.0})
    diagnosis = diagnose(RUN, [bare])
    assert diagnosis.verdict is None
    assert diagnosis.shares == {"unattributed": 1.0}
    assert [note.code for note in diagnosis.data_quality] == ["no_stage"]


def test_notes_of_many_steps_are_one():
    steps = [facts({"gen": 150, "update_actor": 100}, step=n, step_s=100) for n in range(1, 6)]
    diagnosis = diagnose(RUN, steps)
    notes = [note for note in diagnosis.data_quality if note.code == "stage.sum_exceeds_step"]
    assert [(note.first_step, note.last_step) for note in notes] == [(1, 5)]
    assert notes[0].summary.endswith("(5 steps)")


def test_unknown_override_is_refused():
    with pytest.raises(ConfigError, match="no threshold `dominance`"):
        diagnose(RUN, [], overrides={"dominance": 0.1})


def test_stage_mfu_far_below_the_reported_one():
    lengths = [2048] * 64
    run = RunFacts(
        "run",
        "run",
        gpu_count=8,
        gpu_model="NVIDIA A100-SXM4-80GB",
        model_config={
            "model_type": "qwen2",
            "vocab_size": 152064,
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
        },
    )
    scalars = {
        "timing_s/gen": 5.0,
        "timing_s/update_actor": 20.0,
        "timing_s/step": 26.0,
        "perf/mfu/actor": 0.42,
    }
    step = assemble_step(inputs((), scalars, run=run, sequence_lengths=lengths))
    diagnosis = diagnose_step(run, StepFacts(step, scalars))
    assert diagnosis.verdict == "update.inefficient"
    assert diagnosis.mfu["actor"].value == 0.42
    stage = diagnosis.mfu["actor_stage"]
    assert stage.source == "computed"
    assert stage.value is not None
    assert stage.value < 0.75 * 0.42
    assert "offloading or dispatch" in diagnosis.summary


def test_scalars_that_are_no_numbers_prove_nothing():
    nothing = {
        "global_seqlen/balanced_max": float("nan"),
        "global_seqlen/mean": 1000.0,
        "timing_s/agent_loop/generate_sequences/max": float("inf"),
        "actor/pg_clipfrac": float("nan"),
    }
    for seconds in (LONG_GEN, LONG_GEN | {"update_actor": 900.0}):
        diagnosis = diagnose_step(RUN, facts(seconds, nothing, run=RUN))
        assert diagnosis.verdict in ("rollout.unexplained", "update.unknown")
        assert all(math.isfinite(row.value) for row in diagnosis.evidence)
        assert not [finding for finding in diagnosis.findings if finding.evidence]


def tail_facts(number: int, seconds: dict[str, float] | None = None) -> StepFacts:
    return facts(
        seconds or LONG_GEN,
        run=RUN,
        step=number,
        trajectories=samples([30.0] * 99 + [97.0], [1500] * 99 + [8000], preemptions=[0] * 100),
    )


def judged_as(given: StepFacts, verdict: str) -> StepFacts:
    """Return a step as it is kept for long: with its verdict, without its samples."""
    step = replace(given.step, verdict=verdict, confidence="high")
    return replace(given, step=step, trajectories=None)


def test_steps_keep_the_verdicts_they_were_given_when_they_closed():
    old = [judged_as(tail_facts(number), "rollout.tool") for number in range(1, 61)]
    steps = [*old, *(tail_facts(number) for number in range(61, 81))]
    diagnosis = diagnose(RUN, steps)
    assert [step.verdict for step in diagnosis.steps] == ["rollout.tool"] * 59 + [
        "rollout.long_tail"
    ] * 20
    assert diagnosis.annotations == (
        VerdictChange(2, "rollout.tool", None),
        VerdictChange(61, "rollout.long_tail", "rollout.tool"),
    )
    anew = diagnose(RUN, steps, overrides={"dominance.share": 0.9})
    assert {step.verdict for step in anew.steps} == {"balanced"}


def test_verdict_of_one_step_is_that_of_its_window():
    diagnosis = diagnose_step(RUN, judged_as(tail_facts(5), "rollout.tool"))
    assert diagnosis.verdict == "rollout.unexplained"
    assert [step.verdict for step in diagnosis.steps] == ["rollout.unexplained"]


@pytest.mark.parametrize("count", [3, 5, 20])
@pytest.mark.parametrize("stage", ["update_actor", "update_weights"])
def test_one_straggler_step_does_not_flip_the_window(count: int, stage: str):
    for place in range(count):
        steps = [tail_facts(number) for number in range(10, 10 + count)]
        steps[place] = tail_facts(10 + place, LONG_GEN | {stage: 9_000.0})
        diagnosis = diagnose(RUN, steps, attempt_starts={1: 1})
        assert (diagnosis.verdict, diagnosis.num_judged) == ("rollout.long_tail", count)
        assert {change.verdict for change in diagnosis.annotations} <= {"rollout.long_tail"}


@pytest.mark.parametrize("first", [101, 104, 110])
@pytest.mark.parametrize("count", [7, 20, 23])
def test_validation_every_tenth_step_does_not_decide(first: int, count: int):
    # Longer than the step: what counts is a tenth of it.
    def validated(first: int, count: int) -> list[StepFacts]:
        return [
            facts(
                LONG_GEN | ({"testing": 300.0} if number % 10 == 0 else {}),
                run=RUN,
                step=number,
                step_s=sum(LONG_GEN.values()) + 1,
                trajectories=samples([30.0] * 99 + [97.0], [1500] * 99 + [8000]),
            )
            for number in range(first, first + count)
        ]

    baseline = make_baseline(validated(61, 40), 40)
    diagnosis = diagnose(RUN, validated(first, count), baseline, attempt_starts={1: 1})
    assert diagnosis.verdict == "rollout.long_tail"
    assert diagnosis.outside["testing"].duration_s == pytest.approx(30)
    assert diagnosis.outside["testing"].ratio_to_step == pytest.approx(30 / 143, rel=0.01)


def test_long_range_is_judged_by_all_steps_and_looked_into_at_some():
    steps = [judged_as(tail_facts(number), "rollout.long_tail") for number in range(1, 951)]
    steps += [tail_facts(number) for number in range(951, 1_001)]
    diagnosis = diagnose(RUN, steps)
    assert (diagnosis.num_judged, len(diagnosis.steps)) == (999, 999)
    assert (diagnosis.verdict, diagnosis.confidence) == ("rollout.long_tail", "high")
    assert diagnosis.shares["gen"] == pytest.approx(100 / 142)


def test_stragglers_of_a_resumed_run():
    first = [tail_facts(number) for number in range(1, 9)]
    again = [
        replace(given, step=replace(given.step, attempt=2))
        for given in (tail_facts(number) for number in range(7, 15))
    ]
    again[0] = replace(
        again[0], step=replace(tail_facts(7, LONG_GEN | {"update_actor": 999}).step, attempt=2)
    )
    opened = StepFacts(replace(assemble_step(inputs(step=15)), attempt=2))
    diagnosis = diagnose(RUN, [*first[:6], *again, opened])
    assert [(e.step, e.reason) for e in diagnosis.excluded] == [
        (1, "first step of an attempt: it warms up"),
        (7, "first step of an attempt: it warms up"),
        (15, "not closed"),
    ]
    assert diagnosis.verdict == "rollout.long_tail"


def test_validation_within_the_steps_is_named_where_no_family_dominates():
    seconds = {"gen": 60.0, "old_log_prob": 10.0, "update_actor": 25.0}
    steps = [facts(seconds | {"testing": 75.0}, run=RUN, step=number) for number in range(1, 6)]
    diagnosis = diagnose(RUN, steps)
    assert (diagnosis.verdict, diagnosis.confidence) == ("balanced", "low")
    assert "validation and checkpoints 44 %, rollout 35 %" in diagnosis.summary
    assert [row.metric for row in diagnosis.evidence] == ["share/outside", "share/rollout"]
    assert diagnosis.next[0].keys[0] == "trainer.test_freq"


def test_what_log_probabilities_give_back_without_an_mfu_is_not_zero():
    seconds = {"gen": 20.0, "old_log_prob": 40.0, "ref": 30.0, "update_actor": 10.0}
    diagnosis = diagnose(RUN, [facts(seconds, run=RUN, step=number) for number in range(1, 6)])
    assert diagnosis.verdict == "logprob"
    assert diagnosis.recoverable_s_per_step == pytest.approx(20.0)
    assert diagnosis.recoverable_s_per_step_range == pytest.approx((0.0, 40.0))


def test_waves_of_queued_samples_are_named_and_nothing_is_advised_that_is_done():
    waves = samples([60.0, 62.0, 64.0, 96.0] * 25, [1500, 1600, 1700, 8000] * 25)
    waves = replace(waves, queue_s=tuple(0.7 * time_s for time_s in waves.durations_s))
    steps = [facts(LONG_GEN, run=RUN, step=n, trajectories=waves) for n in range(1, 6)]
    diagnosis = diagnose(RUN, steps)
    assert (diagnosis.verdict, diagnosis.confidence) == ("rollout.unexplained", "low")
    assert "come in waves" in diagnosis.summary
    assert "concatenation" not in diagnosis.summary
    assert diagnosis.next[0].keys[0] == "actor_rollout_ref.rollout.max_num_seqs"
    assert not [look for look in diagnosis.next if "longpole.trajectory" in look.text]


def test_summed_parallel_calls_give_back_no_more_than_their_samples_last():
    many = samples([97.0] * 10, [1500] * 10, tool_s=[500.0] * 10)
    steps = [facts(LONG_GEN, run=RUN, step=n, trajectories=many) for n in range(1, 6)]
    diagnosis = diagnose(RUN, steps)
    assert diagnosis.verdict == "rollout.tool"
    assert diagnosis.recoverable_s_per_step == pytest.approx(48.5)
    # All samples are in tools equally long: none of them is beyond the usual one.
    assert diagnosis.recoverable_s_per_step_range == pytest.approx((0.0, 97.0))
