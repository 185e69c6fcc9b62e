from longpole_server.ingest.normalize.jobs import JobBook
from longpole_server.model.records import Records
from support import otlp_builders as otlp
from support.otlp_normalizing import Feed, place_of

JOB = {"longpole.job": "ray/s/01"}


def worker(role: str | None = "hybrid", pid: int = 200) -> otlp.Resource:
    return otlp.process(None, role=role, pid=pid, longpole__job="ray/s/01")


def controller() -> otlp.Resource:
    return otlp.process("proj/ppo", longpole__job="ray/s/01")


def test_a_worker_that_names_no_run_belongs_to_its_job_s() -> None:
    feed = Feed()
    early = feed.traces(worker(), [otlp.stage("actor_update", 1, 1, 2)], at_s=2)
    assert place_of(early) == set()
    assert feed.normalizer.stats.num_waiting == 1
    records = feed.traces(controller(), [otlp.loop(1, 0, 3)], at_s=3)
    assert place_of(records) == {("proj/ppo", 1)}
    assert {span.stage for span in records.stage_spans} == {"step", "update_actor"}
    later = feed.traces(worker(), [otlp.stage("actor_update", 2, 4, 5)], at_s=5)
    assert place_of(later) == {("proj/ppo", 1)}


def test_engines_wait_for_their_job_s_run() -> None:
    feed = Feed()
    engine = otlp.resource(
        {"service.name": "vllm", "service.instance.id": "replica_0", "host.name": "n", **JOB}
    )
    series = otlp.gauge("vllm:num_requests_running", [(1, 3, {"engine": "0"})])
    early = feed.metrics(engine, [series], at_s=1)
    assert not early.engine_samples
    records = feed.traces(controller(), [otlp.loop(1, 0, 3)], at_s=3)
    (sample,) = records.engine_samples
    assert (sample.run_id, sample.replica, sample.value) == ("proj/ppo", "replica_0", 3.0)


def test_an_engine_by_itself_is_of_the_only_run_beside_it() -> None:
    feed = Feed()
    engine = otlp.resource(
        {"service.name": "vllm", "host.name": "node0", "longpole.job": "process/node0/7/1"}
    )
    series = otlp.gauge("vllm:num_requests_running", [(1, 3, {})])
    feed.traces(otlp.process("one"), [otlp.loop(1, 0, 3)], at_s=3)
    (sample,) = feed.metrics(engine, [series], at_s=4).engine_samples
    assert sample.run_id == "one"
    assert feed.metrics(engine, [series], at_s=400).engine_samples
    assert not feed.metrics(engine, [series], at_s=4000).engine_samples
    for run_id, pid in (("one", 100), ("two", 101)):
        feed.traces(otlp.process(run_id, pid=pid), [otlp.loop(2, 5000, 5001)], at_s=5001)
    assert not feed.metrics(engine, [series], at_s=5002).engine_samples


def test_a_controller_without_a_run_is_not_kept_waiting() -> None:
    feed = Feed()
    records = feed.traces(worker("controller"), [otlp.loop(1, 0, 3)], at_s=3)
    assert place_of(records) == {("trainer@node0", 1)}
    of_worker = feed.traces(worker(), [otlp.stage("ref", 1, 1, 2)], at_s=4)
    assert place_of(of_worker) == {("trainer@node0", 1)}


def test_what_waits_is_bounded_and_without_a_job_nothing_does() -> None:
    jobs, done = JobBook(max_waiting=3), list[str]()

    def note(name: str) -> None:
        done.append(name)

    for name in ("a", "b", "c", "d"):
        jobs.wait("job", 1, lambda _, name=name: note(name))
    jobs.wait("", 1, lambda _: note("nobody's"))
    assert (jobs.num_waiting, jobs.num_given_up) == (3, 2)
    jobs.learn("job", "run", Records())
    assert done == ["b", "c", "d"]
    assert jobs.num_waiting == 0
    assert jobs.find("job") == "run"
