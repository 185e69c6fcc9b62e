"""A recorded training of verl, through the agent's parts and the server's normaliser."""

from collections.abc import Mapping, Sequence

from longpole_agent.encode import MetricsEncoder
from longpole_agent.peers import NoPeers
from longpole_agent.receiver.stamping import Stamper
from longpole_agent.sources.monitor_pages import MonitorPage
from longpole_agent.sources.source import Point
from longpole_server.analysis.ledger import assemble_step
from longpole_server.ingest.normalize import Normalizer
from longpole_server.model.facts import RunFacts, StepInputs
from longpole_server.model.records import UNKNOWN_STEP, Records
from support.rl_insight_traffic import Event, read_file_log, read_traffic

PAGE = "192.0.2.2:9092"


class Pages:
    """The page as it stands, and nobody else's."""

    def __init__(self, job: str) -> None:
        self.job = job

    def find_lone_job(self) -> str:
        return self.job

    def visit_trainer(self, job: str) -> None:
        assert job == self.job


class Node:
    """One node with one training: its agent's parts before a shared server.

    Args:
        job: What the agent found out about the sender; "" for nothing.
        experiment: Takes the place of the recorded one.
    """

    def __init__(self, normalizer: Normalizer, job: str, experiment: str = "ppo") -> None:
        self._normalizer = normalizer
        self._job = job
        self._experiment = experiment
        self._text = ""
        self._page = MonitorPage(self._fetch, self._fetch, lambda _: None)
        self._stamper = Stamper(NoPeers(), "node-1", Pages(job))
        self._encoder = MetricsEncoder("node-1", 7)

    def _fetch(self, target: str) -> str:
        assert target == PAGE
        return self._text

    def take(self, event: Event, into: Records) -> None:
        if event.kind == "page":
            text = event.body.decode()
            self._text = text.replace(
                'experiment_name="ppo"', f'experiment_name="{self._experiment}"'
            )
            points = self._page.read(PAGE, event.t_ns)
            if points:
                body = self._encoder.encode(map(self._name_job, points))
                self._normalizer.normalize("metrics", body, event.t_ns, into)
        elif event.path == "/v1/traces":
            body, _ = self._stamper(
                "traces", event.body, event.content_type, event.encoding, ("127.0.0.1", 5)
            )
            self._normalizer.normalize("traces", body, event.t_ns, into)

    def _name_job(self, point: Point) -> Point:
        resource = (*point.resource, ("longpole.job", self._job))
        return Point(
            point.metric,
            point.unit,
            point.kind,
            point.ts_ns,
            point.value,
            point.attributes,
            resource,
        )


def replay(*nodes: Node) -> Records:
    records = Records()
    for event in read_traffic():
        for node in nodes:
            node.take(event, records)
    return records


def scalars_of(records: Records, run_id: str) -> Mapping[int, Mapping[str, float]]:
    scalars: dict[int, dict[str, float]] = {}
    for point in records.metric_points:
        if point.run_id == run_id:
            scalars.setdefault(point.step, {})[point.name] = point.value
    return scalars


def test_every_number_of_a_step_is_the_one_verl_wrote_into_its_own_log() -> None:
    records = replay(Node(Normalizer(), "ray/s/01"))
    written = read_file_log()
    scalars = scalars_of(records, "proj/ppo")
    # Of the last step the page was gone before it was read.
    assert sorted(scalars) == [1, 2, 3]
    for step, values in scalars.items():
        assert values == {name: float(value) for name, value in written[step].items()}
    assert {(start.run_id, start.attempt) for start in records.run_starts} == {("proj/ppo", 1)}
    assert records.run_starts[-1].system == "verl"


def test_stages_have_the_seconds_of_verl_s_log() -> None:
    records = replay(Node(Normalizer(), "ray/s/01"))
    written = read_file_log()
    spans = [span for span in records.stage_spans if span.step == 2]
    step = assemble_step(
        StepInputs(
            RunFacts(run_id="proj/ppo", name="ppo"),
            1,
            2,
            spans=spans,
            scalars=scalars_of(records, "proj/ppo")[2],
            scalars_ns=max(point.ts_ns for point in records.metric_points if point.step == 2),
        )
    )
    assert step.closed_by == "metrics"
    assert step.duration_s == written[2]["timing_s/step"]
    stages = {stage.stage: stage.inclusive_s for stage in step.stages}
    for stage in ("gen", "old_log_prob", "adv", "update_actor", "update_weights"):
        assert stages[stage] == written[2][f"timing_s/{stage}"]


def test_spans_of_workers_become_lanes_of_the_step_they_ran_in() -> None:
    records = replay(Node(Normalizer(), "ray/s/01"))
    by_step: dict[int, list[str]] = {}
    for span in records.stage_spans:
        by_step.setdefault(span.step, []).append(f"{span.role} {span.stage}")
    expected = ["rollout gen"] * 8 + ["worker old_log_prob", "worker update_actor"]
    assert {step: sorted(lanes) for step, lanes in by_step.items()} == {
        1: expected,
        2: expected,
        3: expected,
    }
    assert {span.run_id for span in records.stage_spans} == {"proj/ppo"}


def test_two_trainings_behind_one_server_stay_apart() -> None:
    normalizer = Normalizer()
    records = replay(
        Node(normalizer, "ray/s/01"), Node(normalizer, "ray/other/01", experiment="dapo")
    )
    for run_id in ("proj/ppo", "proj/dapo"):
        lanes = [span for span in records.stage_spans if span.run_id == run_id]
        assert len(lanes) == 30
        assert sorted(scalars_of(records, run_id)) == [1, 2, 3]
    assert {span.run_id for span in records.stage_spans} == {"proj/ppo", "proj/dapo"}


def test_what_cannot_be_told_apart_is_in_no_run() -> None:
    records = replay(Node(Normalizer(), ""))
    assert not records.stage_spans
    assert len(records.raw_spans) > 30


def test_spans_that_come_before_the_run_is_known_wait_for_it() -> None:
    normalizer = Normalizer()
    node = Node(normalizer, "ray/s/01")
    events = read_traffic()
    early = Records()
    for event in [each for each in events if each.kind == "request"]:
        node.take(event, early)
    assert not early.stage_spans
    assert normalizer.stats.num_waiting > 0
    late = Records()
    for event in [each for each in events if each.kind == "page"]:
        node.take(event, late)
    assert _steps(late) == [1, 2, 3]


def _steps(records: Records) -> Sequence[int]:
    return sorted({span.step for span in records.stage_spans if span.step != UNKNOWN_STEP})
