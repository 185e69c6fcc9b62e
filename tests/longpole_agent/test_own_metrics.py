"""The agent's own figures, alone and by the real program with a pretended driver."""

from dataclasses import dataclass
from pathlib import Path

from longpole.spool import Spool
from longpole_agent.clock import SystemClock
from longpole_agent.counters import Counters
from longpole_agent.forward import Forwarder
from longpole_agent.own_metrics import Parts, collect_metrics
from longpole_agent.sampler import Sampler
from longpole_agent.upstream import HttpUpstream
from support.agent_process import AgentProcess
from support.agent_waiting import wait_until
from support.nvml_stub import GPU_IS_LOST, NvmlStub

NOBODY = "http://127.0.0.1:9"


@dataclass
class PretendGpus:
    num_gpus: int = 8
    num_lost: int = 0


def make_parts(tmp_path: Path, gpus: PretendGpus | None) -> Parts:
    spool = Spool(tmp_path / "spool", 1 << 20)
    counters = Counters()
    forwarder = Forwarder(spool, HttpUpstream(NOBODY, ""), counters, jitter=lambda: 0.5)
    sampler = Sampler([], 1.0, lambda _: None, counters, SystemClock())
    return Parts(spool, 1 << 20, counters, forwarder, sampler, gpus)


def test_every_figure_has_a_name_of_its_own(tmp_path: Path) -> None:
    metrics = list(collect_metrics(make_parts(tmp_path, PretendGpus())))
    names = [metric.name for metric in metrics]
    assert len(names) == len(set(names))
    assert all(name.startswith("longpole_agent_") for name in names)
    assert all((metric.kind == "counter") == metric.name.endswith("_total") for metric in metrics)


def test_the_program_tells_them(tmp_path: Path) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpus = [stub.add_device() for _ in range(2)]
    options = ("--interval-s", "0.05", "--nvml-retry-s", "0.05")
    agent = AgentProcess(tmp_path, NOBODY, *options, environment=stub.environment)
    try:
        wait_until(lambda: "longpole_agent_gpus 2.0" in agent.metrics())
        assert 'longpole_agent_source_failing{source="nvml"} 0.0' in agent.metrics()
        gpus[1].error = GPU_IS_LOST
        wait_until(lambda: "longpole_agent_gpus_lost 1.0" in agent.metrics())
        wait_until(lambda: "longpole_agent_delivery_trouble 1.0" in agent.metrics())
        assert agent.stop() == 0
    finally:
        agent.kill()
