from longpole_server.model.records import ProcessSeen, RunStart
from support import otlp_builders as otlp
from support.otlp_normalizing import Feed


def test_an_announced_run_carries_its_description() -> None:
    sender = otlp.process(
        rl__project="math",
        rl__run__name="gsm8k",
        rl__system="verl",
        rl__system__version="0.9.1",
        rl__algorithm="grpo",
        rl__mode="sync",
        rl__gpu__count=16,
        rl__model__name="qwen",
        rl__model__config='{"hidden_size": 8}',
        rl__staleness__bound=1,
        rl__staleness__basis="versions",
    )

    records = Feed().event(
        sender, "rl.run.start", 5, rl__config__group_size=8, rl__config__sync="nccl"
    )

    assert records.run_starts == [
        RunStart(
            run_id="run",
            attempt=1,
            started_ns=otlp.at(5),
            name="gsm8k",
            project="math",
            system="verl",
            system_version="0.9.1",
            algorithm="grpo",
            mode="sync",
            model_name="qwen",
            model_config='{"hidden_size": 8}',
            gpu_count=16,
            staleness_bound=1.0,
            staleness_basis="versions",
            host="node0",
            pid=100,
            process_start_ns=otlp.at(0),
            config={"group_size": "8", "sync": "nccl"},
            declared=True,
        )
    ]


def test_data_alone_announces_a_run_once() -> None:
    feed = Feed()

    feed.traces(otlp.process(), [otlp.stage("gen", 1, 1, 3)], at_s=3)
    feed.traces(otlp.process(), [otlp.loop(1, 1, 9)], at_s=9)

    assert [(start.declared, start.pid) for start in feed.all_starts] == [(False, 100)]


def test_an_announcement_after_data_keeps_what_was_known() -> None:
    feed = Feed()
    feed.traces(otlp.process(rl__system="verl"), [otlp.loop(1, 1, 9)], at_s=9)

    (start,) = feed.event(otlp.process(), "rl.run.start", 10, rl__config__n=1).run_starts

    assert (start.declared, start.system, start.config) == (True, "verl", {"n": "1"})


def test_the_controller_of_a_run_that_others_announced_is_made_known() -> None:
    feed = Feed()
    worker = otlp.process(role="rollout", pid=7)

    feed.traces(worker, [otlp.stage("gen", 1, 1, 3)], at_s=3)
    feed.traces(otlp.process(pid=1), [otlp.loop(1, 1, 9)], at_s=9)

    assert [(start.attempt, start.pid) for start in feed.all_starts] == [(1, None), (1, 1)]


def test_a_worker_neither_begins_nor_ends_the_run() -> None:
    feed = Feed()
    feed.event(otlp.process(), "rl.run.start", 1)
    worker = otlp.process(role="rollout", pid=7)

    started = feed.event(worker, "rl.run.start", 2, rl__config__n=99)
    ended = feed.event(worker, "rl.run.end", 3, rl__status="crashed")

    assert started.run_starts == ended.run_ends == []


def test_a_renamed_run_says_so() -> None:
    (start,) = Feed().event(otlp.process("exp/steps"), "rl.run.start", 1).run_starts

    assert start.run_id == "exp/steps_"
    assert start.notes == ("The run id 'exp/steps' is kept as 'exp/steps_'.",)


def test_spans_of_other_libraries_make_no_run() -> None:
    feed = Feed()
    sender = otlp.resource(service__name="vllm", host__name="node1")

    records = feed.traces(
        sender,
        [
            otlp.span("llm_request", 1, 2, {"gen_ai.usage.prompt_tokens": 3}),
            otlp.span("execute_tool search", 1, 2),
            otlp.span("train", 1, 2),
        ],
        at_s=2,
    )

    assert len(records.raw_spans) == len(records) == 3


def test_a_process_that_ended_was_last_seen_at_its_end() -> None:
    feed = Feed()
    controller, worker = otlp.process(), otlp.process(role="rollout", pid=7)
    for sender in (controller, worker):
        feed.event(sender, "rl.run.start", 1)

    seen = [
        process.seen_ns
        for sender in (controller, worker)
        for process in feed.event(sender, "rl.run.end", 4).processes
    ]

    assert seen == [otlp.at(4), otlp.at(4)]


def test_a_process_is_seen_at_once_and_then_every_ten_seconds() -> None:
    feed = Feed()
    sender = otlp.process(rl__gpu__ids=["GPU-1", "GPU-2"], service__instance__id="r0")

    seen = [
        feed.traces(sender, [otlp.loop(second, second, second + 1)], at_s=second + 1).processes
        for second in range(25)
    ]

    assert [second for second, processes in enumerate(seen) if processes] == [0, 10, 20]
    assert seen[0] == [
        ProcessSeen(
            run_id="run",
            attempt=1,
            host="node0",
            pid=100,
            role="controller",
            seen_ns=otlp.at(1),
            gpu_ids=("GPU-1", "GPU-2"),
            instance="r0",
            service="trainer",
            scope="tests",
        )
    ]


def test_a_process_names_its_pod_and_its_job() -> None:
    sender = otlp.process(
        k8s__namespace__name="rl",
        k8s__pod__name="trainer-0",
        k8s__pod__uid="u",
        slurm__job__id=77,
        ray__job__id="01000000",
    )

    (process,) = Feed().traces(sender, [otlp.loop(1, 0, 1)], at_s=1).processes

    assert (process.pod_namespace, process.pod_name, process.pod_uid) == ("rl", "trainer-0", "u")
    assert (process.slurm_job_id, process.ray_job_id) == ("77", "01000000")
