import time
from dataclasses import fields, replace

import pytest

from longpole_server.model.alert import (
    AlertEvent,
    AlertEvidence,
    AlertMessage,
    Delivery,
    Silence,
    UserRule,
)
from longpole_server.model.records import GpuSample, HostSample, Records, TrajectoryRecord
from longpole_server.read.alerts import AlertReader
from longpole_server.store.alerts import AlertWriter
from support.alert_histories import BEGIN_NS, S, at, make_step
from support.store_opening import OpenedStore

EVENT = AlertEvent(
    event_id="e1",
    alert_id="a1",
    kind="firing",
    ts_ns=at(10),
    decided_ns=at(11),
    rule="loss.nan",
    severity="critical",
    run_id="team/run",
    run_name="run",
    project="team",
    entity_kind="run",
    entity_id="team/run",
    started_ns=at(10),
    started_step=4,
    fired_ns=at(10),
    step=4,
    count=1,
    value=float("nan"),
    threshold=None,
    baseline=None,
    unit="1",
    summary="it's broken",
    cause="",
    first_look="",
    evidence=(AlertEvidence("actor/pg_loss", 1.0, "1"),),
    notify=True,
)


@pytest.fixture
def writer(opened: OpenedStore):
    writer = opened.store.new_alert_writer()
    yield writer
    writer.close()


@pytest.fixture
def reader(opened: OpenedStore) -> AlertReader:
    return AlertReader(opened.pool)


def event(**changes: object) -> AlertEvent:
    return replace(EVENT, value=1.0, **changes)  # type: ignore[arg-type]


def test_columns_are_the_fields(opened: OpenedStore) -> None:
    for table, kind in (
        ("alert_events", AlertEvent),
        ("alert_messages", AlertMessage),
        ("alert_deliveries", Delivery),
    ):
        answer = opened.client.query(f"SELECT * FROM {table} LIMIT 0")
        assert sorted(answer.column_names) == sorted(field.name for field in fields(kind))


def test_events_come_back_as_they_were_once_each(writer: AlertWriter, reader: AlertReader):
    first, second = event(), event(event_id="e2", kind="seen", decided_ns=at(12))
    writer.write_events([first, second])
    writer.write_events([first, second])
    assert reader.list_events_since(at(0)) == [first, second]
    assert reader.list_events(None, 10, 0) == [first]
    assert reader.list_events("another", 10, 0) == []
    assert reader.list_events_of(["e2"]) == [second]


def test_what_is_not_over_is_read_however_old(writer: AlertWriter, reader: AlertReader):
    old = event(alert_id="open", event_id="o1", decided_ns=at(-90))
    over = [
        event(alert_id="over", event_id="v1", decided_ns=at(-80)),
        event(alert_id="over", event_id="v2", decided_ns=at(-70), kind="resolved"),
    ]
    writer.write_events([old, *over])
    ids = [each.event_id for each in reader.list_events_since(at(100))]
    assert "o1" in ids
    assert not {"v1", "v2"} & set(ids)


def test_of_what_only_counts_the_last_is_read(writer: AlertWriter, reader: AlertReader):
    counted = [
        event(alert_id="long", event_id=f"c{number}", decided_ns=at(number), kind="seen")
        for number in range(20, 40)
    ]
    writer.write_events([event(alert_id="long", event_id="c0", decided_ns=at(15)), *counted])
    read = [each for each in reader.list_events_since(at(0)) if each.alert_id == "long"]
    assert [each.event_id for each in read] == ["c0", "c39"]


def test_silences_and_rules_are_replaced_and_deleted(writer: AlertWriter, reader: AlertReader):
    silence = Silence("s1", "gpu", None, None, "ada", "", at(0), at(100))
    writer.write_silence(silence, 1)
    writer.write_silence(replace(silence, ends_ns=at(50)), 2)
    assert reader.list_silences() == [replace(silence, ends_ns=at(50))]
    rule = UserRule("user.x", "X", "m", "above", 1.0, 0.5, 2, "info", 60.0, "team/*", "ada")
    writer.write_rule("user.x", rule, 1)
    assert reader.list_user_rules() == [rule]
    writer.write_rule("user.x", None, 2)
    assert reader.list_user_rules() == []


def test_messages_and_deliveries(writer: AlertWriter, reader: AlertReader):
    message = AlertMessage("m1", "team/run", ("e1", "e2"), ("slack",), at(0))
    tries = [
        Delivery("m1", "slack", 1, "retry", "429", "", at(1), at(5)),
        Delivery("m1", "slack", 2, "delivered", "", "170.1", at(6)),
    ]
    writer.write_message(message)
    writer.write_message(message)
    for attempt in (*tries, *tries):
        writer.write_delivery(attempt)
    assert reader.list_messages(at(0)) == [message]
    assert reader.list_deliveries(at(0)) == tries


def test_samples_are_counted_by_step_and_replica(opened: OpenedStore, reader: AlertReader):
    def sample(name: str, step: int, end_s: float, **changes: object) -> TrajectoryRecord:
        record = TrajectoryRecord(
            "counted", 1, step, name, at(end_s - 1), at(end_s), replica="r0", span_id=name
        )
        return replace(record, **changes)  # type: ignore[arg-type]

    opened.writer.write(
        Records(
            trajectories=[
                sample("a", 1, 5, reward=0.0, score_s=30.0, policy_version_end=3),
                sample("b", 1, 6, reward=1.0, score_s=1.0, preemptions=2),
                sample("c", 1, 7, replica="r1", status="dropped_stale"),
                sample("d", -1, 15),
                sample("e", -1, 25),
                sample("f", 2, 15, phase="validation"),
            ]
        ),
        "samples",
    )
    steps = [make_step(1), make_step(2)]
    found = reader.count_samples("counted", 1, steps)
    assert sorted(found) == [1, 2]
    first, second = found[1]
    assert (first.replica, first.num_samples, first.num_scored, first.num_zero_rewards) == (
        "r0",
        2,
        2,
        1,
    )
    assert (first.num_preempted, first.num_reporting_preemptions, first.version_max) == (1, 1, 3)
    assert sorted(first.score_s) == [1.0, 30.0]
    assert first.zero_score_s == (30.0,)
    assert (second.replica, second.num_dropped_stale, second.version_max) == ("r1", 1, None)
    assert [row.num_samples for row in found[2]] == [1]
    # Who was thrown away was to have no reward; who came without one was.
    assert (second.num_unscored, found[2][0].num_unscored) == (0, 1)


def test_gpus_and_hosts_of_the_last_minute(opened: OpenedStore, reader: AlertReader):
    samples = [
        GpuSample(
            "n0",
            "G0",
            0,
            BEGIN_NS + second * S,
            utilization_ratio=0.5,
            power_watts=200.0,
            clocks_event_reasons=0x40 if second >= 45 else 0x1,
        )
        for second in range(30, 60)
    ]
    hosts = [HostSample("n1", at(58))]
    opened.writer.write(Records(gpu_samples=samples, host_samples=hosts), "gpus")
    row = reader.read_gpu_minute(at(30))["G0"]
    assert (row.num_samples, row.utilization_ratio, row.power_watts) == (30, 0.5, 200.0)
    assert row.sm_active_ratio is None
    assert (row.num_with_reasons, row.num_throttled, row.throttle_reasons) == (30, 15, 0x40)
    assert reader.list_hosts(at(0)) == {"n0": at(59), "n1": at(58)}


def test_what_drivers_and_agents_say_of_trouble(opened: OpenedStore, reader: AlertReader):
    samples = [
        GpuSample(
            "n2",
            "G2",
            0,
            BEGIN_NS + second * S,
            xid=79 if second == 30 else 0 if second % 10 == 0 else None,
            ecc_uncorrected_errors=5 + (second >= 40) if second % 10 == 0 else None,
        )
        for second in range(20, 61)
    ]
    hosts = [
        HostSample("n2", at(30), spool_used_ratio=0.25, agent_dropped_total=2, disk_used_ratio=0.5),
        HostSample("n2", at(40), spool_used_ratio=0.75, agent_dropped_total=6, disk_used_ratio=0.5),
        HostSample("n2", at(41), cpu_utilization_ratio=0.5),
    ]
    opened.writer.write(Records(gpu_samples=samples, host_samples=hosts), "faults")
    fault = reader.read_gpu_faults(at(0))["G2"]
    assert (fault.xid, fault.num_xids, fault.ecc_errors) == (79, 1, 1)
    agent = reader.read_agents(at(0))["n2"]
    assert (agent.spool_used_ratio, agent.disk_used_ratio, agent.num_dropped) == (0.75, 0.5, 4)
    gpus = reader.list_gpu_minutes(["G2"], (at(0), at(120)))
    assert sum(row.num_samples for row in gpus) == 41
    assert [row.xid for row in gpus if row.xid] == [79]
    seen = reader.list_host_minutes(["n2"], (at(0), at(120)))
    assert max(row.newest_ns for row in seen) == at(41)


def test_a_clock_that_was_ahead_and_is_right_again(opened: OpenedStore, reader: AlertReader):
    now_ns = time.time_ns()
    hour_ns = 3_600 * S
    ahead = [
        HostSample(host, now_ns + hour_ns + second * S, clock_offset_s=3600.0)
        for host in ("mended", "ahead")
        for second in range(20)
    ]
    right = [
        HostSample("mended", now_ns - 20 * S, clock_offset_s=0.25, spool_used_ratio=0.5),
        HostSample("mended", now_ns - 5 * S, cpu_utilization_ratio=0.5),
    ]
    # What a wrong clock said an hour ago is of now by this one.
    passed = [HostSample("ahead", now_ns - 5 * S, clock_offset_s=3600.0)]
    opened.writer.write(Records(host_samples=[*ahead, *right, *passed]), "clocks")
    hosts = reader.list_hosts(now_ns - 24 * hour_ns)
    assert hosts["mended"] == now_ns - 5 * S
    assert hosts["ahead"] == now_ns + hour_ns + 19 * S
    agents = reader.read_agents(now_ns - 24 * hour_ns, ["mended"])
    assert agents["mended"].clock_ahead_s == 0.25
