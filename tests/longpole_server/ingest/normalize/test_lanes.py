from dataclasses import replace

from longpole_server.ingest.normalize.lanes import LanePlacer
from longpole_server.model.records import UNKNOWN_STEP, Records, StageSpan


class Lanes:
    def __init__(self, max_waiting: int = 100) -> None:
        self.placer = LanePlacer(max_waiting)
        self.records = Records()

    def add(self, stage: str, start: int, end: int) -> None:
        span = StageSpan("run", 1, UNKNOWN_STEP, stage, stage, start, end, "t", f"{stage}{start}")
        self.placer.add(span, self.records)

    def end(self, step: int, at: int, *, is_exact: bool = True) -> None:
        self.placer.note_end("run", 1, step, at, self.records, is_exact=is_exact)

    @property
    def steps(self) -> dict[str, int]:
        return {span.span_id: span.step for span in self.records.stage_spans}


def test_a_span_waits_for_the_end_of_its_step() -> None:
    lanes = Lanes()
    lanes.add("ref", 10, 20)
    assert lanes.placer.num_waiting == 1
    lanes.end(1, 30)
    lanes.add("ref", 22, 28)
    lanes.add("ref", 32, 38)
    lanes.end(2, 40)
    assert lanes.steps == {"ref10": 1, "ref22": 1, "ref32": 2}


def test_what_is_said_first_of_an_end_holds() -> None:
    lanes = Lanes()
    lanes.end(1, 30)
    lanes.end(1, 90)
    lanes.add("ref", 40, 50)
    lanes.end(2, 60)
    assert lanes.steps == {"ref40": 2}


def test_where_the_end_is_known_late_generation_after_the_update_is_the_next_step_s() -> None:
    lanes = Lanes()
    for stage, start, end in (("gen", 1, 4), ("update_actor", 5, 8), ("gen", 9, 10)):
        lanes.add(stage, start, end)
    lanes.end(1, 12, is_exact=False)
    lanes.add("update_actor", 15, 18)
    lanes.end(2, 22, is_exact=False)
    assert lanes.steps == {"gen1": 1, "update_actor5": 1, "gen9": 2, "update_actor15": 2}


def test_where_it_is_known_exactly_generation_stays() -> None:
    lanes = Lanes()
    lanes.add("update_actor", 5, 8)
    lanes.add("gen", 9, 10)
    lanes.end(1, 12)
    assert lanes.steps == {"update_actor5": 1, "gen9": 1}


def test_runs_do_not_mix_and_waiting_is_bounded() -> None:
    lanes = Lanes(max_waiting=2)
    for start in (1, 3, 5):
        lanes.add("ref", start, start + 1)
    assert lanes.placer.num_given_up == 1
    other = replace(
        StageSpan("other", 1, UNKNOWN_STEP, "ref", "ref", 1, 2, "t", "other"), attempt=1
    )
    lanes.placer.add(other, lanes.records)
    lanes.end(1, 10)
    assert lanes.steps == {"ref3": 1, "ref5": 1}
    assert lanes.placer.num_waiting == 1


def test_what_a_title_hints_at_is_left_out_where_the_process_s_state_is_told() -> None:
    placer, records = LanePlacer(), Records()

    def add(stage: str, name: str, start: int, pid: int) -> None:
        span = StageSpan("run", 1, UNKNOWN_STEP, stage, name, start, start + 5, "t", f"{name}{pid}")
        placer.add(replace(span, role="worker", pid=pid), records)

    # A title is told as soon as it was looked at, a state when it has ended.
    add("update_actor", "ray::WorkerDict.actor_update_actor", 1, 7)
    add("save_checkpoint", "ray::WorkerDict.actor_save_checkpoint", 8, 7)
    add("update_actor", "ray::WorkerDict.actor_update_actor", 1, 8)
    add("update_actor", "actor_update", 1, 7)
    placer.note_end("run", 1, 1, 30, records, is_exact=True)
    add("update_actor", "ray::WorkerDict.actor_update_actor", 20, 7)
    assert sorted((span.pid, span.stage, span.name[:5]) for span in records.stage_spans) == [
        (7, "save_checkpoint", "ray::"),
        (7, "update_actor", "actor"),
        (8, "update_actor", "ray::"),
    ]
    assert placer.num_repeated == 2
