from dataclasses import replace
from typing import Any

from longpole_server.alerts.detectors.hardware import (
    ClockSkew,
    GpuFault,
    GpuIdle,
    GpuLost,
    GpuThrottled,
    NodeSilent,
    SpoolFilling,
)
from longpole_server.alerts.history import History, HostSeen
from longpole_server.model.diagnosis import Entity
from support.alert_histories import at, history_at, make_gpu, make_host, make_own

FIRST = Entity("gpu", "GPU-0")
NODE = Entity("host", "node-0")


def look(entity: Entity, seconds: float = 100.0, **fields: Any) -> History:
    return history_at(seconds, **fields).focus(entity)


def test_a_gpu_is_lost_when_its_node_goes_on():
    lost = [make_gpu(0, newest_s=20), make_gpu(1)]
    assert GpuLost().judge(look(FIRST, gpus=lost)).firing
    silent_together = [make_gpu(0, newest_s=20), make_gpu(1, newest_s=21)]
    assert not GpuLost().judge(look(FIRST, gpus=silent_together)).firing
    alone = look(FIRST, gpus=[make_gpu(0, newest_s=20)], hosts=[make_host(100)])
    assert GpuLost().judge(alone).firing


def test_a_throttled_gpu_says_why():
    gpu = make_gpu(0, throttled_ratio=0.8, throttle_reasons=0x40 | 0x80)
    judgement = GpuThrottled().judge(look(FIRST, gpus=[gpu]))
    assert judgement.firing
    assert judgement.words == {"gpu": "node-0/0", "reasons": "hardware thermal, power brake"}
    assert not GpuThrottled().judge(look(FIRST, gpus=[make_gpu(0)])).is_judged


def test_a_gpu_is_idle_among_busy_ones_of_its_role():
    idle = make_gpu(0, utilization_ratio=0.0)
    busy = [make_gpu(index) for index in (1, 2, 3)]
    assert GpuIdle().judge(look(FIRST, gpus=[idle, *busy])).firing
    waiting = [make_gpu(index, utilization_ratio=0.1) for index in (1, 2, 3)]
    judgement = GpuIdle().judge(look(FIRST, gpus=[idle, *waiting]))
    assert not judgement.firing
    assert judgement.quiet_because == "the other GPUs of rollout are not busy either"
    others = [make_gpu(index, role="trainer") for index in (1, 2, 3)]
    assert not GpuIdle().judge(look(FIRST, gpus=[idle, *others])).is_judged


def test_a_node_is_silent_unless_the_server_is_behind():
    hosts = [make_host(10)]
    assert NodeSilent().judge(look(NODE, hosts=hosts, own=make_own())).firing
    behind = make_own(num_pending=5_000)
    assert not NodeSilent().judge(look(NODE, hosts=hosts, own=behind)).is_judged
    assert not NodeSilent().judge(look(NODE, hosts=[make_host(95)], own=make_own())).firing


def test_a_clock_that_is_ahead_is_told_from_one_that_is_behind():
    assert ClockSkew().judge(look(NODE, hosts=[make_host(110)])).firing
    judgement = ClockSkew().judge(look(NODE, hosts=[make_host(60)]))
    assert not judgement.firing
    assert "behind or delayed" in (judgement.quiet_because or "")


def test_an_agent_says_how_far_its_clock_is_off():
    behind = replace(make_host(60), clock_ahead_s=-40.0)
    judgement = ClockSkew().judge(look(NODE, hosts=[behind]))
    assert (judgement.firing, judgement.value, judgement.words["side"]) == (True, 40.0, "behind")
    delayed = replace(make_host(60), clock_ahead_s=0.3)
    assert ClockSkew().judge(look(NODE, hosts=[delayed])).cleared
    # Data from the future is what it is, whatever was said before.
    ahead = replace(make_host(130), clock_ahead_s=0.3)
    assert ClockSkew().judge(look(NODE, hosts=[ahead])).words["side"] == "ahead of"


def test_a_node_whose_clock_is_wrong_is_silent_when_nothing_new_comes():
    behind = replace(make_host(-7_200), heard_ns=at(95))
    assert not NodeSilent().judge(look(NODE, hosts=[behind], own=make_own())).firing
    ahead = replace(make_host(7_200), heard_ns=at(20))
    assert NodeSilent().judge(look(NODE, hosts=[ahead], own=make_own())).firing


def test_what_a_driver_reports_fires_and_says_whose_fault_it_is():
    fallen = GpuFault().judge(look(FIRST, gpus=[make_gpu(0, xid=79)]))
    assert fallen.firing
    assert (fallen.words["said"], fallen.words["whose"]) == ("XID 79", "the GPU or its link")
    program = GpuFault().judge(look(FIRST, gpus=[make_gpu(0, xid=31, ecc_errors=0)]))
    assert program.words["whose"] == "the program on it"
    memory = GpuFault().judge(look(FIRST, gpus=[make_gpu(0, xid=0, ecc_errors=2)]))
    assert memory.words["said"] == "2 uncorrected memory errors"
    assert GpuFault().judge(look(FIRST, gpus=[make_gpu(0, xid=0)])).cleared
    assert not GpuFault().judge(look(FIRST, gpus=[make_gpu(0)])).is_judged


def judge_agent(**fields: Any) -> Any:
    host = HostSeen("node-0", 0, **fields)
    return SpoolFilling().judge(look(NODE, hosts=[host]))


def test_an_agent_that_cannot_keep_what_it_is_given():
    assert judge_agent(spool_used_ratio=0.9).firing
    assert judge_agent(spool_used_ratio=0.1).cleared
    assert judge_agent(spool_used_ratio=0.1, num_dropped=3).firing
    full = judge_agent(spool_used_ratio=0.1, disk_used_ratio=0.97)
    assert full.words["what"] == "the disk under the agent's spool is 97% full"
    assert not judge_agent().is_judged
