import math

import pytest

from longpole_server.analysis.ledger import assemble_step
from longpole_server.diagnosis import diagnose, diagnose_step
from longpole_server.errors import ConfigError
from longpole_server.model.facts import RunFacts, StepFacts
from support.steps import facts, inputs, read_facts, samples

RUN = RunFacts("run", "run", system="verl", gpu_count=16)
LONG_GEN = {"gen": 100.0, "old_log_prob": 8.0, "update_actor": 30.0, "update_weights": 4.0}


@pytest.mark.parametrize(
    ("name", "verdict", "confidence"),
    [
        ("verl_console_long_tail.log", "rollout.long_tail", "high"),
        ("verl_console_update_inefficient.log", "update.inefficient", "high"),
        ("verl_file_balanced.jsonl", "balanced", "medium"),
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
        "gen. Fixing it would give back about 51.4 s a step."
    )


def test_first_step_is_left_out_of_a_file():
    run, steps = read_facts("verl_file_balanced.jsonl")
    diagnosis = diagnose(run, steps)
    assert (diagnosis.first_step, diagnosis.last_step, diagnosis.num_judged) == (1, 8, 7)
    assert [excluded.step for excluded in diagnosis.excluded] == [1]
    later = diagnose(run, steps, attempt_starts={1: 0})
    assert later.num_judged == 8


def test_one_step():
    step = facts(
        LONG_GEN, run=RUN, trajectories=samples([30.0] * 99 + [97.0], [1500] * 99 + [8000])
    )
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
