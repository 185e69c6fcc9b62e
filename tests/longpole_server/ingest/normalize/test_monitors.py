"""Pages of RL-Insight's client: whose run they lead, beside whom they only add."""

from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from longpole_server.model.records import Records
from support import otlp_builders as otlp
from support.otlp_normalizing import Feed, place_of


def page(job: str = "ray/s/01", host: str = "node0", experiment: str = "ppo") -> Resource:
    return otlp.resource(
        {
            "service.name": "rl_insight_monitor",
            "rl.system": "verl",
            "project": "proj",
            "experiment_name": experiment,
            "longpole.job": job,
            "host.name": host,
        }
    )


def show(feed: Feed, step: int, at_s: float, sender: Resource | None = None) -> Records:
    values = {"rl.loop.iteration": step}
    metric = otlp.gauge("timing_s/step", [(at_s, 1.0, values)])
    return feed.metrics(sender or page(), [metric], at_s=at_s)


def lane(name: str, start_s: float, end_s: float, **values: object) -> Span:
    lane = "replica_0" if name.endswith("generate") else "rank_0"
    named = {"state_name": name, "state_lane_id": lane, "process_id": "77", **values}
    return otlp.span(name, start_s, end_s, named)


def hub(job: str = "ray/s/01") -> Resource:
    return otlp.resource(
        {"service.name": "rl_insight_monitor", "host.name": "node0", "longpole.job": job}
    )


def test_a_page_alone_leads_its_run_and_another_job_begins_another_attempt() -> None:
    feed = Feed()
    assert place_of(show(feed, 1, 10)) == {("proj/ppo", 1)}
    assert place_of(show(feed, 2, 20)) == {("proj/ppo", 1)}
    assert place_of(show(feed, 1, 30, page("ray/t/01"))) == {("proj/ppo", 2)}
    assert [start.attempt for start in feed.all_starts] == [1, 2]
    assert feed.all_starts[0].system == "verl"


def test_two_pages_that_both_go_on_are_two_runs() -> None:
    feed = Feed()
    show(feed, 1, 10)
    show(feed, 1, 12, page("ray/t/01"))
    show(feed, 2, 20)
    show(feed, 2, 22, page("ray/t/01"))
    places = place_of(show(feed, 3, 30)) | place_of(show(feed, 3, 32, page("ray/t/01")))
    assert {run_id for run_id, _ in places} == {"proj/ppo", "proj/ppo#2"}


def test_beside_a_controller_the_page_only_adds() -> None:
    feed = Feed()
    controller = otlp.process("proj/ppo", longpole__job="ray/s/01")
    feed.traces(controller, [otlp.loop(1, 0, 5)], at_s=5)
    assert place_of(show(feed, 1, 6)) == {("proj/ppo", 1)}
    feed.event(controller, "rl.run.end", 7, rl__status="finished")
    # The last look at a page may come after the end.
    assert place_of(show(feed, 2, 8)) == {("proj/ppo", 1)}
    assert {start.run_id for start in feed.all_starts} == {"proj/ppo"}


def test_a_page_that_came_first_makes_way_for_no_second_run_of_its_own_job() -> None:
    feed = Feed()
    feed.traces(hub(), [lane("actor_update", 1, 2)], at_s=3)
    records = show(feed, 1, 5)
    assert {(span.step, span.stage, span.role) for span in records.stage_spans} == {
        (1, "update_actor", "worker")
    }
    assert records.stage_spans[0].pid == 77


def test_a_span_that_names_its_run_needs_no_job_and_names_it_for_the_others() -> None:
    feed = Feed()
    named = lane("rollout", 1, 2, project="proj", experiment_name="ppo")
    feed.traces(hub(), [named, lane("vllm_generate", 1, 2)], at_s=3)
    records = show(feed, 1, 5)
    assert {(span.run_id, span.stage) for span in records.stage_spans} == {("proj/ppo", "gen")}


def test_sessions_of_agent_frameworks_are_samples() -> None:
    feed = Feed()
    values = {
        "project": "proj",
        "experiment_name": "ppo",
        "sample": "3",
        "session": "1",
        "state_lane_id": "experiment=ppo/sample=3/session=1/traj=0",
        "global_steps": 4,
        "uid": "u3",
        "status": "success",
        "monitor.trace_source": "session",
    }
    records = feed.traces(hub(), [otlp.span("agent_session", 1, 4, values)], at_s=5)
    (sample,) = records.trajectories
    assert (sample.run_id, sample.step, sample.group_id) == ("proj/ppo", 4, "u3")
    assert sample.trajectory_id == "4/experiment=ppo/sample=3/session=1/traj=0"
    assert sample.status == "success"


def test_a_rank_that_tells_its_own_windows_is_not_told_twice() -> None:
    feed = Feed()
    show(feed, 1, 10.0)
    worker = otlp.resource(
        {
            "service.name": "longpole",
            "rl.role": "hybrid",
            "host.name": "trainer-pod",
            "process.pid": 77,
            "longpole.job": "ray/s/01",
        }
    )
    own = otlp.span("rl.train", 11.0, 12.0, {"rl.stage": "actor_update"})
    feed.traces(worker, [own], at_s=12.2)
    feed.traces(hub(), [lane("actor_update", 11.0, 12.0)], at_s=16.0)
    other = lane("actor_update", 11.0, 12.0, process_id="78")
    records = feed.traces(hub(), [other], at_s=16.0)
    records = show(feed, 2, 17.0)
    assert [span.pid for span in records.stage_spans if span.role == "worker"] == [78]


def title_lane(title: str, start_s: float, end_s: float) -> Span:
    named = {"state_name": title, "state_lane_id": "title_8", "process_id": 8}
    return otlp.span(title, start_s, end_s, named)


def workers(job: str = "ray/s/01") -> Resource:
    return otlp.resource({"service.name": "ray", "host.name": "node0", "longpole.job": job})


def test_titles_of_workers_are_lanes_of_their_jobs_run_and_lead_nothing() -> None:
    feed = Feed()
    update = title_lane("ray::WorkerDict.actor_rollout_update_actor", 4, 8)
    assert feed.traces(workers(), [update], at_s=8).stage_spans == [], (
        "of which run, in which step?"
    )
    (span,) = show(feed, 1, 10).stage_spans
    assert (span.run_id, span.step, span.stage, span.role) == (
        "proj/ppo", 1, "update_actor", "worker",
    )  # fmt: skip
    assert (span.name, span.pid) == ("ray::WorkerDict.actor_rollout_update_actor", 8)


def test_titles_of_workers_of_no_run_make_none() -> None:
    records = Feed().traces(workers(), [title_lane("ray::CPUServer.generate", 1, 2)], at_s=2)
    assert place_of(records) == set()
    assert len(records.raw_spans) == 1
