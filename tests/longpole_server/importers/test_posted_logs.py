"""Lines in the forms in which people post them: each was read wrongly or passed over once."""

import json

import pytest

from longpole.conventions.metrics import read_metric
from longpole_server.errors import UnreadableLogError
from longpole_server.importers import ImportedFacts, LogSource, import_facts
from longpole_server.importers.logged import LogSummary
from longpole_server.importers.records import import_records
from longpole_server.importers.rows import clean_row
from longpole_server.importers.trl import parse_trl
from longpole_server.model.facts import EngineWindow

VERL = (
    "(TaskRunner pid=7) step:1 - timing_s/gen:74.0 - timing_s/update_actor:20.0 - "
    "timing_s/step:100.0 - critic/score/mean:0.5\n"
)


def read(text: str) -> ImportedFacts:
    return import_facts(LogSource.of_bytes("log", text.encode(), 10**18), "x")


def seconds_of(facts: ImportedFacts) -> list[tuple[int, float | None]]:
    return [(fact.step.step, fact.step.duration_s) for fact in facts.steps]


def codes_of(facts: ImportedFacts) -> list[str]:
    return [note.code for note in facts.notes]


class TestTrl:
    RECORD = (
        "{{'loss': -0.0, 'grad_norm': 0.19, 'completion_length': {length}, "
        "'rewards/accuracy_reward': 0.025, 'reward': 0.036, 'kl': 0.0, 'epoch': 0.0}}\n"
    )
    BAR = "  0%|            | {step}/1000 [{elapsed}<78:02:42, 281.24s/it]\n"

    def test_the_bar_s_clock_stands_for_seconds_that_first_versions_do_not_log(self) -> None:
        bars = ((0, "00:00"), (1, "04:41"), (2, "1:09:21"))
        text = "".join(
            self.BAR.format(step=step, elapsed=elapsed) + self.RECORD.format(length=800.0 + step)
            for step, elapsed in bars
            if step
        )
        facts = read(self.BAR.format(step=0, elapsed="00:00") + text)
        assert seconds_of(facts) == [(1, 281.0), (2, 3880.0)]
        assert codes_of(facts) == ["step.clock"]
        assert read_metric("response_length_mean", facts.steps[0].scalars) == 801.0

    def test_a_terminal_s_copy_holds_the_bar_behind_its_record(self) -> None:
        text = "".join(
            self.RECORD.format(length=800.0) + self.BAR.format(step=step, elapsed=elapsed)
            for step, elapsed in ((1, "04:41"), (2, "09:21"))
        )
        facts = read(text)
        assert seconds_of(facts) == [(1, 281.0), (2, 280.0)]
        assert "step.counted" not in codes_of(facts)

    def test_after_a_resume_the_first_record_s_seconds_are_not_known(self) -> None:
        text = "".join(
            self.BAR.format(step=step, elapsed=elapsed) + self.RECORD.format(length=800.0)
            for step, elapsed in ((501, "09:00"), (502, "10:00"))
        )
        assert seconds_of(read(text)) == [(502, 60.0)]

    def test_the_bar_of_an_evaluation_is_not_the_training_s(self) -> None:
        text = "".join(
            f"{self.BAR.format(step=step, elapsed=elapsed)}  50%|█████     | 8/16 [00:03<00:03]\n"
            + self.RECORD.format(length=800.0)
            for step, elapsed in ((1, "00:20"), (2, "00:50"))
        )
        assert seconds_of(read(text)) == [(1, 20.0), (2, 30.0)]

    def bars(self, first: int, last: int) -> str:
        return "\r".join(
            self.BAR.format(step=step, elapsed=f"{step // 2:02}:{step % 2 * 30:02}").rstrip()
            for step in range(first, last + 1)
        )

    @pytest.mark.parametrize("end", ["\n", "\r"])
    def test_buffered_records_share_the_steps_of_the_bars_before_them(self, end: str) -> None:
        records = [self.RECORD.format(length=800.0 + index) for index in range(5)]
        text = self.bars(0, 30) + end + "".join(records[:3]) + self.bars(31, 50) + end
        facts = read(text + "".join(records[3:]))
        assert seconds_of(facts) == [(step, 30.0) for step in (10, 20, 30, 40, 50)]
        assert [fact.scalars["completion_length"] for fact in facts.steps] == [
            800.0, 801.0, 802.0, 803.0, 804.0,
        ]  # fmt: skip
        assert codes_of(facts) == ["step.clock"]

    def test_records_that_do_not_fill_their_bars_are_said_to_be_counted(self) -> None:
        text = self.bars(0, 29) + "\n" + self.RECORD.format(length=800.0) * 3
        facts = read(text)
        assert [step for step, _ in seconds_of(facts)] == [11, 20, 29]
        assert codes_of(facts) == ["step.counted", "step.clock"]

    def test_a_record_of_several_steps_is_there_when_the_bar_moves_on(self) -> None:
        lines = [
            f"{line}\n".encode()
            for line in (
                *self.bars(0, 10).split("\r"),
                self.RECORD.format(length=800.0).rstrip(),
                self.bars(11, 11),
            )
        ]
        summary = LogSummary()
        seen: list[int] = []
        found = parse_trl((seen.append(index) or line for index, line in enumerate(lines)), summary)
        assert (next(found).step, len(seen)) == (10, len(lines))

    def test_records_at_a_known_distance_do_not_wait_for_the_bar(self) -> None:
        lines: list[bytes] = []
        for first, last in ((0, 10), (11, 20), (21, 30)):
            bars = self.bars(first, last).split("\r")
            lines += [f"{line}\n".encode() for line in (*bars, self.RECORD.format(length=1.0)[:-1])]
        seen: list[int] = []
        found = parse_trl(
            (seen.append(index) or line for index, line in enumerate(lines)), LogSummary()
        )
        told = [(line.step, line.scalars["step_time"], len(seen)) for line in found]
        assert told == [(10, 30.0, 13), (20, 30.0, 23), (30, 30.0, 34)]

    def test_a_record_of_ms_swift_does_not_wait(self) -> None:
        record = (
            "Train:   8%|▊         | {0}/60 [00:{0}0<43:40, 10.00s/it]{{'reward': '0.5', "
            "'completions/mean_length': '120', 'global_step/max_steps': '{0}/60', "
            "'elapsed_time': '{0}0s'}}\n"
        )
        lines = [record.format(step).encode() for step in (1, 5)]
        seen: list[int] = []
        found = parse_trl((seen.append(1) or line for line in lines), LogSummary())
        assert [(line.step, len(seen)) for line in found] == [(1, 1), (5, 2)]

    def test_ms_swift_s_console_says_step_and_clock_in_its_dictionary(self) -> None:
        text = "".join(
            f"{{'loss': 0.001, 'completions/mean_length': 300.5, 'reward': 0.5, 'epoch': 0.01, "
            f"'global_step/max_steps': '{step}/100', 'percentage': '3.00%', "
            f"'elapsed_time': '{elapsed}', 'memory(GiB)': 60.1}}\n"
            for step, elapsed in ((3, "2m 3s"), (4, "2m 43s"), (6, "3m 43s"))
        )
        assert seconds_of(read(text)) == [(4, 40.0), (6, 30.0)]


class TestPrimeRl:
    LINES = "".join(
        f"Generating rollouts (train): 100%|██████████| 512/512 [01:13<00:00,  6.97it/s]\n"
        f"02:33:26 SUCCESS Step {step} | Time: {seconds}s | Reward: 0.3887 | "
        "Throughput: 2408.9 tokens/s | Seq. Length: 345.6 tokens/sample | Async Level: 1 | "
        "Max. Off-Policy Level: 0\n"
        for step, seconds in ((28, 73.77), (29, 72.73))
    )

    def test_the_orchestrator_s_log_alone_is_read(self) -> None:
        facts = read(self.LINES)
        assert seconds_of(facts) == [(28, 73.77), (29, 72.73)]
        assert codes_of(facts) == ["step.orchestrator"]
        assert read_metric("throughput", facts.steps[0].scalars) is None

    def test_it_is_stored_with_the_same_seconds(self) -> None:
        source = LogSource.of_bytes("log", self.LINES.encode(), 10**18)
        (first, batch) = import_records(source, "x")
        points = {(p.step, p.name): p.value for p in batch.metric_points}
        assert points[28, "time/step"] == 73.77
        assert "orchestrator" in first.run_starts[0].notes[0]

    def test_beside_a_trainer_its_seconds_are_none_of_the_step(self) -> None:
        trainer = "02:33:20 SUCCESS Step 28 | Time: 70.00s | Loss: 0.0012 | Entropy: 0.31\n"
        facts = read(self.LINES + trainer)
        assert seconds_of(facts) == [(28, 70.0)]
        assert "step.orchestrator" not in codes_of(facts)


class TestSkyRl:
    LINE = "(skyrl_entrypoint pid=7) 2026-11-29 16:4{minute}:00.871 | INFO     | x:y:43 - {text}\n"
    STEPS = (
        "Started: 'eval'",
        "Finished: 'eval', time cost: 12.00s",
        "Started: 'step'",
        "Started: 'generate'",
        "Finished: 'generate', time cost: 50.00s",
        "Finished: 'policy_train', time cost: 39.50s",
        "Finished: 'step', time cost: 90.00s",
        "Finished: 'save_checkpoints', time cost: 4.00s",
        "Started: 'step'",
        "Finished: 'generate', time cost: 40.00s",
        "Finished: 'step', time cost: 80.00s",
    )

    def lines(self) -> str:
        return "".join(
            self.LINE.format(minute=index % 10, text=text) for index, text in enumerate(self.STEPS)
        )

    def test_with_another_tracker_its_timers_are_the_steps(self) -> None:
        facts = read(self.lines())
        assert facts.run.system == "skyrl"
        assert seconds_of(facts) == [(1, 90.0), (2, 80.0)]
        found = {stage.stage: stage.exclusive_s for stage in facts.steps[0].step.stages}
        assert found == {"gen": 50.0, "update_actor": 39.5}
        assert facts.steps[0].scalars["timing/save_checkpoints"] == 4.0
        assert codes_of(facts) == ["step.counted"]

    def test_beside_the_console_s_metrics_they_count_once(self) -> None:
        step = self.LINE.format(minute=9, text="Step 5:") + (
            "(skyrl_entrypoint pid=7) {'timing/generate': '50.1234',\n"
            "(skyrl_entrypoint pid=7)  'timing/step': '90.5000'}\n"
        )
        head, tail = self.lines().split(self.LINE.format(minute=8, text="Started: 'step'"))
        text = head + step + "Started: 'step'\n" + tail
        text = text.replace("x:y:43 - Step", "skyrl.train.utils.tracking:log:189 - Step")
        assert seconds_of(read(text)) == [(5, 90.5)]


class TestAReal:
    HEAD = "20250801-16:39:18.338 Stats Logger INFO: Epoch 1/2 Step 3/10 Train step 3/20 done.\n"

    @pytest.mark.parametrize(
        ("top", "side", "bottom"),
        [("+-----+", "|", "+-----+"), ("╭─────╮", "│", "╰─────╯"), ("┏━━━━━┓", "┃", "┗━━━━━┛")],
        ids=["letters", "round", "heavy"],
    )
    def test_any_grid_of_its_table_is_read(self, top: str, side: str, bottom: str) -> None:
        cells = ("timeperf/rollout", "4.1200e+01", "timeperf/train_step", "2.0000e+01")
        row = f"{side} " + f" {side} ".join(cells) + f" {side}"
        facts = read(f"{self.HEAD}Stats (1/1):\n{top}\n{row}\n{bottom}\n")
        assert seconds_of(facts) == [(3, pytest.approx(61.2))]
        assert "line.torn" not in codes_of(facts)

    def test_what_moves_models_is_part_of_the_step(self) -> None:
        cells = ("timeperf/rollout", "4.0000e+01", "timeperf/rollout_offload", "1.5000e+00")
        more = ("timeperf/actor_onload", "2.0000e+00", "timeperf/train_step", "2.0000e+01")
        fork = ("timeperf/rollout_postprocess", "7.0000e+00", "timeperf/rollout_resume", "5.0e-01")
        rows = "".join("│ " + " │ ".join(each) + " │\n" for each in (cells, more, fork))
        facts = read(f"{self.HEAD}Stats (1/1):\n╒═════╕\n{rows}╘═════╛\n")
        assert seconds_of(facts) == [(3, pytest.approx(64.0))]
        found = {stage.stage: stage.exclusive_s for stage in facts.steps[0].step.stages}
        assert found == {"gen": 40.0, "update_actor": 20.0, "sleep_wake": pytest.approx(4.0)}

    def test_scopes_of_its_trace_beyond_the_training_loop_are_no_trouble(self) -> None:
        scopes: list[dict[str, object]] = [
            {"name": "train.rollout", "ph": "X", "dur": 4e7, "args": {"global_step": 3}},
            {"name": "train.actor_onload", "ph": "X", "dur": 2e6, "args": {}},
            {"name": "arun_episode", "ph": "X", "dur": 2e6, "args": {"session_id": 5}},
            {"name": "train.ppo_update", "ph": "X", "dur": 2e7, "args": {"global_step": 3}},
        ]
        facts = read("".join(f"{json.dumps(scope)}\n" for scope in scopes))
        assert seconds_of(facts) == [(3, 60.0)]
        assert "line.unreadable" not in codes_of(facts)


class TestNemoRl:
    BLOCK = (
        "📊 Training Results:\n  • Generation KL Error: 0.0020\n  • Avg Reward: {reward}\n\n"
        "⏱️  Timing:\n  • Total step time: {seconds}s\n  • policy_training: 12.00s (30.7%)\n"
        "  • policy_and_reference_logprobs: 5.00s (25.0%)\n  • policy_logprobs: 2.00s (10.0%)\n"
        "  • reference_logprobs: 3.00s (15.0%)\n"
        "🔍 Performance Metrics:\n    - E2E (Tokens/sec/gpu): 1073.59\n"
        "    - E2E (Tokens/sec): 8588.75\n"
    )

    def test_blocks_that_are_shown_without_the_line_of_their_step_are_counted(self) -> None:
        blocks = ((0.1, 36.7), (0.2, 37.7))
        text = "".join(self.BLOCK.format(reward=each, seconds=took) for each, took in blocks)
        facts = read(text)
        assert (facts.run.system, codes_of(facts)) == ("nemo_rl", ["step.counted"])
        assert seconds_of(facts) == [(1, 36.7), (2, 37.7)]
        assert [read_metric("reward_mean", each.scalars) for each in facts.steps] == [0.1, 0.2]
        assert read_metric("throughput", facts.steps[0].scalars) == 1073.59
        times = self.BLOCK.format(reward=0, seconds=36.7).partition("⏱️")[2]
        assert seconds_of(read(f"⏱️{times}")) == [(1, 36.7)]

    def test_parts_of_a_timer_are_not_counted_beside_it(self) -> None:
        head = "==================== Step 3/100 ====================\n"
        facts = read(head + self.BLOCK.format(reward=0.1, seconds=36.7))
        found = {stage.stage: stage.exclusive_s for stage in facts.steps[0].step.stages}
        assert found == {"update_actor": 12.0, "old_log_prob": 5.0}

    def test_its_console_tells_buffer_and_age(self) -> None:
        facts = read(
            "========================= Step 3/100 =========================\n"
            "📊 Training Results:\n  • Buffer Size: 64\n  • Avg Trajectory Age: 1.00 steps\n"
            "⏱️  Timing:\n  • Total step time: 66.55s\n  • exposed_generation: 32.52s (48.9%)\n"
        )
        (fact,) = facts.steps
        assert read_metric("buffer_size", fact.scalars) == 64.0
        assert read_metric("staleness_mean", fact.scalars) == 1.0


class TestVerl:
    def test_pairs_on_lines_of_their_own_with_others_left_out_are_a_step(self) -> None:
        text = (
            "step:1 - actor/grad_norm:0.04106094129383564 - \n……\n"
            "timing_s/generate_sequences:1081.803466796875 - \ntiming_s/gen:1315.2 - \n...\n"
            "timing_s/update_actor:303.9 - timing_s/adv:0.5 - \ntiming_s/step:1738.5 - \n……\n"
            "perf/throughput:69.39 ……\n"
        )
        facts = read(text)
        assert seconds_of(facts) == [(1, 1738.5)]
        scalars = facts.steps[0].scalars
        assert read_metric("throughput", scalars) == 69.39
        assert (scalars["timing_s/adv"], scalars["timing_s/gen"]) == (0.5, 1315.2)

    def test_steps_that_a_logger_cut_short_are_named(self) -> None:
        lines = [
            f"step:{step} - critic/score/mean:0.5"
            + ("" if step in {2, 5} else f" - timing_s/gen:40.0 - timing_s/step:{60 + step}.5")
            for step in range(5)
        ]
        facts = read("\n".join([*lines, "step:5 - val-core/acc/mean@1:0.5", ""]))
        assert [step for step, _ in seconds_of(facts)] == [0, 1, 3, 4]
        (note,) = facts.notes
        assert (note.code, note.summary[:8]) == ("step.untimed", "1 steps ")

    @pytest.mark.parametrize("name", ["switch_wait", "switch_to_rollout", "switch_to_trainer"])
    def test_timers_of_switching_tell_the_mode(self, name: str) -> None:
        stale = "training/off_policy/trajectory_staleness_worst/max:3"
        facts = read(VERL.replace("critic/", f"timing_s/{name}:3.0 - {stale} - critic/"))
        assert facts.run.mode == "separate_async"
        assert "mode.ambiguous" not in codes_of(facts)

    def test_the_wait_of_the_first_one_step_off_trainer_is_a_wait(self) -> None:
        facts = read(VERL.replace("timing_s/gen:", "timing_s/wait_prev_gen:"))
        assert facts.run.mode == "one_step_off"
        (fact,) = facts.steps
        wait = fact.step.stage("trainer_wait")
        assert wait is not None
        assert wait.exclusive_s == 74.0
        assert codes_of(facts) == []


class TestOpenRlhf:
    def test_lengths_of_versions_before_it_logged_rollouts_apart(self) -> None:
        facts = read(
            "\x1b[36m(PPOTrainer pid=11)\x1b[0m INFO 11-29 16:42:00 ppo_trainer.py:210] ✨ Global "
            "step 2: {'policy_loss': tensor(-0.0100), 'ppo_kl': np.float64(0.0001), 'kl': nan, "
            "'reward': 0.5, 'response_length': 512.0, 'timing/generation': 40.0, "
            "'timing/step_total': 85.0}\r\n"
        )
        (fact,) = facts.steps
        assert read_metric("response_length_mean", fact.scalars) == 512.0
        assert read_metric("kl_update", fact.scalars) == 0.0001
        assert codes_of(facts) == ["value.not_finite"]


class TestSkyRlShown:
    def test_a_step_without_its_logger_s_prefix_is_one(self) -> None:
        text = (
            "Step 12: \n{'timing/step': '286.05',\n 'timing/generate': '27.65',\n"
            " 'timing/policy_train': '191.74'}\n"
        )
        facts = read(text)
        assert (facts.run.system, seconds_of(facts)) == ("skyrl", [(12, 286.05)])


class TestSlime:
    def test_seconds_of_the_step_by_their_first_name(self) -> None:
        facts = read(
            "(RayTrainGroup pid=3) perf 0: {'perf/train_wait_time': 200.0, 'perf/rollout_time': "
            "150.0, 'perf/actor_train_time': 50.0, 'perf/train_time': 80.0, "
            "'perf/total_train_time': 280.0, 'perf/wait_time_ratio': 0.71}\n"
        )
        assert seconds_of(facts) == [(0, 280.0)]
        found = {stage.stage: stage.exclusive_s for stage in facts.steps[0].step.stages}
        assert found == {"gen": 150.0, "update_actor": 50.0, "trainer_wait": 50.0}


class TestEngines:
    def test_first_versions_of_sglang_tell_hits_in_percent(self) -> None:
        window = self.window(
            "[2026-08-23 09:06:21 TP0] Prefill batch. #new-seq: 1, #new-token: 2, #cached-token: "
            "5, cache hit rate: 71.43%, token usage: 0.25, #running-req: 3, #queue-req: 1"
        )
        assert window.prefix_hit_ratio == pytest.approx(0.7143)
        assert window.kv_usage_max_ratio == 0.25

    def window(self, *lines: str) -> EngineWindow:
        (fact,) = read("".join(f"{line}\n" for line in lines) + VERL).steps
        (window,) = fact.engine_windows
        return window

    LOAD = (
        "INFO 01-23 06:33:37 metrics.py:396] Avg prompt throughput: 0.0 tokens/s, Avg generation "
        "throughput: 16.7 tokens/s, Running: 16 reqs, Swapped: 2 reqs, Pending: 4 reqs, GPU KV "
        "cache usage: 92.1%, CPU KV cache usage: 0.0%."
    )
    PREEMPTED = (
        "WARNING 01-23 06:33:38 scheduler.py:1242] Sequence group 12 is preempted by "
        "PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. This can affect "
        "the end-to-end performance. total_num_cumulative_preemption={count}"
    )

    @pytest.mark.parametrize(
        ("counts", "preemptions"),
        [((1, 51, 101), 101.0), ((151,), None), ((151, 201), 50.0), ((151, 1), 1.0)],
    )
    def test_vllms_first_engine_counts_preemptions_since_its_start(
        self, counts: tuple[int, ...], preemptions: float | None
    ) -> None:
        lines = [self.PREEMPTED.format(count=count) for count in counts]
        assert self.window(self.LOAD, *lines).preemptions == preemptions

    def test_its_hits_stand_on_a_line_of_their_own(self) -> None:
        hits = "INFO 01-23 06:33:37 metrics.py:406] Prefix cache hit rate: GPU: 61.20%, CPU: 0.00%"
        window = self.window(self.LOAD, hits)
        assert window.prefix_hit_ratio == pytest.approx(0.612)
        assert (window.waiting_max, window.kv_usage_max_ratio) == (4.0, pytest.approx(0.921))

    def test_both_of_sglangs_words_for_retraction_count(self) -> None:
        window = self.window(
            "[2026-08-23 09:06:21 TP0] Decode batch, #running-req: 10, #token: 166144, token usage:"
            " 0.92, pre-allocated usage: 0.10, #prealloc-req: 2, cuda graph: True, gen throughput "
            "(token/s): 3000.22, #queue-req: 0",
            "[2026-08-23 09:06:22 TP0] KV cache pool is full. Retract requests. "
            "#retracted_reqs: 4, #new_token_ratio: 0.10 -> 0.98",
            "[2026-08-23 09:06:22 TP0] Decode out of memory happened. #retracted_reqs: 2, "
            "#new_token_ratio: 0.10 -> 0.98",
        )
        assert (window.preemptions, window.kv_usage_max_ratio) == (6.0, 0.92)

    def test_usage_of_hybrid_models_is_that_of_full_attention(self) -> None:
        window = self.window(
            "[2026-08-23 09:06:21 DP9 TP9 EP9] Decode batch, #running-req: 1, #full token: 166144, "
            "full token usage: 0.92, #swa token: 512, swa token usage: 0.30, accept len: 3.55, "
            "cuda graph: True, gen throughput (token/s): 3.22, #queue-req: 5"
        )
        assert (window.replica, window.kv_usage_max_ratio) == ("DP9 TP9", 0.92)

    def test_two_lines_of_vllm_that_ran_into_one_are_read(self) -> None:
        line = (
            "INFO 07-28 06:41:{second} [loggers.py:118] Engine 000: Avg prompt throughput: 0.0 "
            "tokens/s, Avg generation throughput: 239.2 tokens/s, Running: 8 reqs, Waiting: 0 reqs,"
            " GPU KV cache usage: {usage}%, Prefix cache hit rate: 0.0%"
        )
        text = line.format(second="09", usage=91.6) + line.format(second="19", usage=91.9)
        assert self.window(text).kv_usage_max_ratio == pytest.approx(0.919)


class TestOpenInstruct:
    def test_its_steps_are_not_the_episodes_that_wandb_is_told(self) -> None:
        names = ("_step", "global_step", "training_step", "time/total", "time/training")
        names += ("time/trainer_idle_waiting_for_inference", "learner_mfu", "val/stop_rate")
        rows = (",".join(names), "512,512,1,60,20,35,41,0.75", "1024,1024,2,61,20,36,41,0.5")
        facts = import_facts(
            LogSource.of_bytes("history.csv", "\n".join(rows).encode(), 10**18), "x"
        )
        assert (facts.run.system, facts.run.mode) == ("open_instruct", "separate_async")
        assert seconds_of(facts) == [(1, 60.0), (2, 61.0)]
        scalars = facts.steps[0].scalars
        assert read_metric("mfu_actor", scalars) == pytest.approx(0.41)
        assert read_metric("truncated_ratio", scalars) == pytest.approx(0.25)
        found = {stage.stage: stage.exclusive_s for stage in facts.steps[0].step.stages}
        assert found == {"trainer_wait": 35.0, "update_actor": 20.0}


LAUNCHED = (
    *("0: {}", " 0: {}", "[default0]:{}", "[rank0]: {}", "trainer-1  | {}"),
    *("[pod/train-abc/trainer] {}", "2026-11-29T16:42:00.123456789Z {}"),
)
LAUNCHER_IDS = ("srun", "srun of many", "torchrun", "rank", "compose", "kubectl", "kubectl times")


@pytest.mark.parametrize("launched", LAUNCHED, ids=LAUNCHER_IDS)
def test_what_launchers_put_before_each_line_is_no_part_of_it(launched: str) -> None:
    bar = TestTrl.BAR.format(step=7, elapsed="01:00")
    record = "{'loss': '0.1', 'reward': '0.5', 'num_tokens': '100', 'step_time': '20.5'}\n"
    nemo = "==================== Step 3/100 ====================\n  • Total step time: 66.55s\n"
    skyrl = (
        "2026-11-29 16:42:00.871 | INFO | skyrl.train.utils.tracking:log:189 - Step 1:\n"
        "{'timing/generate': '41.2',\n 'timing/step': '70.1'}\n"
    )
    for text, expected in ((bar + record, (7, 20.5)), (nemo, (3, 66.55)), (skyrl, (1, 70.1))):
        lines = (launched.format(line) for line in text.splitlines(keepends=True))
        # Another task prints in between.
        assert seconds_of(read("9: other\n".join(lines))) == [expected]


SHOWN_COLOURS = (
    *("[36m(TaskRunner pid=12)[0m {}", "^[[36m(TaskRunner pid=12)^[[0m {}"),
    *("␛[36m(TaskRunner pid=12, ip=10.0.0.1)␛[0m {}", "\x1b]633;C\x07{}"),
    "\x1b[38;2;1;2;3m{}\x1b[39m",
)


@pytest.mark.parametrize(
    "shown", SHOWN_COLOURS, ids=["lost", "letters", "picture", "editor", "true colour"]
)
def test_colours_of_copied_text_are_no_part_of_it(shown: str) -> None:
    bar = TestTrl.BAR.format(step=7, elapsed="01:00")
    record = "{'loss': '0.1', 'reward': '0.5', 'num_tokens': '100', 'step_time': '20.5'}\n"
    nemo = "==================== Step 3/100 ====================\n  • Total step time: 66.55s\n"
    skyrl = (
        "2026-11-29 16:42:00.871 | INFO | skyrl.train.utils.tracking:log:189 - Step 1:\n"
        "{'timing/generate': '41.2',\n 'timing/step': '70.1'}\n"
    )
    verl = "step:4 - timing_s/gen:40.5 - timing_s/step:66.0\n"
    texts = ((bar + record, 7, 20.5), (nemo, 3, 66.55), (skyrl, 1, 70.1), (verl, 4, 66.0))
    for text, step, seconds in texts:
        lines = (shown.format(line.rstrip()) + "\n" for line in text.splitlines())
        assert seconds_of(read("".join(lines))) == [(step, seconds)]


def test_brackets_that_are_no_colours_stay() -> None:
    assert clean_row(b"[1m(x) 5s]\n").text == "[1m(x) 5s]"
    assert clean_row(b"[12:00] a [0m\n").text == "[12:00] a [0m"


def test_the_node_that_deepspeed_puts_before_a_record_is_no_part_of_it() -> None:
    record = "10.0.0.1: {'loss': 0.1, 'reward': 0.5, 'step_time': 20.5}\n"
    assert seconds_of(read(record)) == [(1, 20.5)]
    tagged = 'metrics_tag: {"step": 3, "metrics": {"time/step_train": 20.0}}\n'
    assert seconds_of(read(tagged)) == [(3, 20.0)]


def test_slimes_rollouts_alone_are_no_steps() -> None:
    text = (
        "(RolloutManager pid=18) [2026-04-15 07:57:53] rollout.py:1193 - perf 0: "
        "{'rollout/response_len/mean': 2773.7, 'perf/rollout_time': 371.17}\n"
    )
    with pytest.raises(UnreadableLogError, match="none of its 1 step lines says how") as refused:
        read(text)
    assert refused.value.hint is not None
    assert "`perf/step_time`" in refused.value.hint
