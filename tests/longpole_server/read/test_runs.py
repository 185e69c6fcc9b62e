from dataclasses import replace

from longpole_server.model.records import MetricPoint, ProcessSeen, Records, RunEnd, RunStart
from longpole_server.model.records import StageStart as Announced
from support.store_opening import OpenedStore
from support.store_records import BASE_NS


def test_attempts_come_with_their_ends_and_newest_times(opened: OpenedStore) -> None:
    first = RunStart("attempts", 1, BASE_NS, declared=True, gpu_count=16, config={"lr": "1e-6"})
    second = RunStart("attempts", 2, BASE_NS + 100)
    end = RunEnd("attempts", 1, BASE_NS + 50, "crashed")
    point = MetricPoint("attempts", 1, 1, "reward", 0.5, BASE_NS + 60)
    opened.writer.write(Records(run_starts=[second]), "attempts-2")
    opened.writer.write(
        Records(run_starts=[first], run_ends=[end], metric_points=[point]), "attempts-1"
    )
    rows = opened.reader.list_attempts("attempts")
    assert [row.start for row in rows] == [first, second]
    assert [row.end for row in rows] == [end, None]
    assert [row.last_seen_ns for row in rows] == [BASE_NS + 60, BASE_NS + 100]
    assert [row for row in opened.reader.list_attempts() if row.start.run_id == "attempts"] == rows


def test_an_announced_start_replaces_an_inferred_one_and_stays(opened: OpenedStore) -> None:
    inferred = RunStart("announced", 1, BASE_NS)
    announced = replace(inferred, name="Announced", declared=True)
    for token, start in (("a", inferred), ("b", announced), ("c", inferred)):
        opened.writer.write(Records(run_starts=[start]), f"announced-{token}")
    assert [row.start for row in opened.reader.list_attempts("announced")] == [announced]


def test_the_last_end_counts(opened: OpenedStore) -> None:
    start = RunStart("ends", 1, BASE_NS)
    ends = [RunEnd("ends", 1, BASE_NS + 2, "finished"), RunEnd("ends", 1, BASE_NS + 1, "crashed")]
    opened.writer.write(Records(run_starts=[start], run_ends=ends), "ends")
    (row,) = opened.reader.list_attempts("ends")
    assert row.end == ends[0]


def test_an_unknown_run_has_no_attempts(opened: OpenedStore) -> None:
    assert opened.reader.list_attempts("nobody's") == []


def test_claims_on_an_id_are_its_run_and_what_has_more_behind(opened: OpenedStore) -> None:
    own = RunStart("claims", 2, BASE_NS, project="a", config={"lr": "1e-6"})
    other = RunStart("claims#2", 1, BASE_NS, project="b", host="node", pid=7,
                     process_start_ns=BASE_NS - 1, notes=("note",))  # fmt: skip
    others = [replace(own, run_id=run_id) for run_id in ("claims2", "claim", "x/claims#2")]
    opened.writer.write(Records(run_starts=[own, other, *others]), "claims")
    assert opened.reader.list_claims("claims") == [replace(own, config={}), other]
    assert opened.reader.list_claims("nobody's#") == []


def test_a_process_is_listed_once_as_last_seen(opened: OpenedStore) -> None:
    early = ProcessSeen("seen", 1, "node-0", 7, "rollout", BASE_NS, instance="engine-0")
    late = replace(early, seen_ns=BASE_NS + 9, gpu_ids=("GPU-1", "GPU-2"))
    other = replace(early, instance="engine-1")
    opened.writer.write(Records(processes=[late, other]), "seen-2")
    opened.writer.write(Records(processes=[early]), "seen-1")
    assert opened.reader.list_processes("seen") == [late, other]


def test_the_newest_heartbeat_of_each_window(opened: OpenedStore) -> None:
    beats = [
        Announced("open", 1, 4, "gen", BASE_NS, BASE_NS + second * 10, "node-0", 7, "controller")
        for second in range(4)
    ]
    opened.writer.write(Records(stage_starts=[beats[0], beats[3]]), "open-1")
    opened.writer.write(Records(stage_starts=[beats[1], beats[2]]), "open-2")
    opened.writer.write(Records(stage_starts=[replace(beats[0], attempt=2)]), "open-3")
    assert opened.reader.list_stage_starts("open", 1, BASE_NS + 25) == [beats[3]]
    assert opened.reader.list_stage_starts("open", 1, BASE_NS + 31) == []
