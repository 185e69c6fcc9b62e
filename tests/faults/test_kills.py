"""Agent and server killed at random moments under load: nothing lost, nothing twice.

Six rounds by default; `pytest tests/faults/test_kills.py --rounds 50` runs fifty, and with
`--whole-server` it is `longpole server` that is killed, not its path from receivers to store alone.
"""

import random
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.agent_waiting import wait_until
from support.fault_ledger import Ledger
from support.fault_load import Address, Load
from support.fault_programs import Program, make_agent, make_server, make_whole_server
from support.fault_relay import Relay
from support.store_opening import opened_store

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

ROUNDS_OF_A_CLUSTER = 6
# Of each of the four senders.
REQUESTS_A_ROUND = 50
# Longest that a program lives once it listens, and while it starts.
LISTENING_S, STARTING_S = 0.8, 1.5
# Of the wire, most of them while what waited is delivered in the end.
MAX_CUTS = 10


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        rounds: Any = metafunc.config.getoption("rounds")
        metafunc.parametrize("seed", range(-(-rounds // ROUNDS_OF_A_CLUSTER)))


class Cluster:
    """A server, an agent that forwards to it over a wire that breaks, and their senders."""

    def __init__(self, directory: Path, *, whole_server: bool) -> None:
        self.relay = Relay()
        make = make_whole_server if whole_server else make_server
        self.server = make(directory / "server")
        self.agent = make_agent(directory / "agent", self.relay.url, "--interval-s", "1")
        self.at_server, self.at_agent = Address(), Address()

    def start(self, program: Program) -> None:
        """Start one of the two, unless it runs, and tell the senders where it listens."""
        program.start()
        ports = program.wait_for_ports()
        if program is self.server:
            self.relay.target = ports["http"]
            self.at_server.ports = ports
        else:
            self.at_agent.ports = ports

    def kill(self, program: Program, seconds: float) -> None:
        """Kill one of the two after a while."""
        program.kill_within(seconds)
        if program is self.server:
            self.relay.target = self.at_server.ports = None
        else:
            self.at_agent.ports = None

    def read_health(self) -> dict[str, Any]:
        """Return what the agent says of itself."""
        assert self.at_agent.ports is not None
        url = f"http://127.0.0.1:{self.at_agent.ports['http']}/health"
        return httpx.get(url, timeout=60.0).json()

    def read_metric(self, name: str) -> int:
        """Return one of the server's own metrics."""
        assert self.at_server.ports is not None
        url = f"http://127.0.0.1:{self.at_server.ports['http']}/metrics"
        lines = httpx.get(url, timeout=60.0).text.splitlines()
        return int(float(next(line.split()[-1] for line in lines if line.startswith(name))))


@contextmanager
def running_cluster(directory: Path, *, whole_server: bool) -> Generator[Cluster]:
    cluster = Cluster(directory, whole_server=whole_server)
    try:
        yield cluster
    finally:
        cluster.server.kill()
        cluster.agent.kill()
        cluster.relay.close()


def test_nothing_is_lost_or_stored_twice(
    tmp_path: Path, seed: int, pytestconfig: pytest.Config
) -> None:
    whole_server = bool(pytestconfig.getoption("whole_server"))
    chance = random.Random(seed)
    ledger = Ledger()
    with running_cluster(tmp_path, whole_server=whole_server) as cluster:
        cluster.relay.cut = lambda _: cluster.relay.num_cuts < MAX_CUTS and chance.random() < 0.1
        load = Load(ledger)
        load.add_plain(cluster.at_agent)
        load.add_grpc(cluster.at_agent)
        load.add_plain(cluster.at_server)
        load.add_owner(cluster.at_server, f"owner-{seed}")
        cluster.start(cluster.server)
        cluster.start(cluster.agent)
        with load.running():
            for _ in range(ROUNDS_OF_A_CLUSTER):
                load.allow(REQUESTS_A_ROUND)
                play_round(cluster, chance)
        deliver_all(cluster)
        assert cluster.agent.stop() == 0, cluster.agent.log
        assert cluster.server.stop() == 0, cluster.server.log
    assert ledger.count("acknowledged") > 0
    with opened_store(tmp_path / "server" / "data" / "store") as opened:
        print(f"seed {seed}: {ledger.check(opened)}, {cluster.relay.num_cuts} cuts")


def play_round(cluster: Cluster, chance: random.Random) -> None:
    """Kill one program or both; sometimes again while it comes up."""
    both = [cluster.server, cluster.agent]
    victims = chance.choice([both[:1], both[:1], both[1:], both])
    for victim in victims:
        cluster.kill(victim, chance.uniform(0.0, LISTENING_S))
    for victim in victims:
        if chance.random() < 0.3:
            victim.start()
            victim.kill_within(chance.uniform(0.0, STARTING_S))
        cluster.start(victim)


def deliver_all(cluster: Cluster) -> None:
    """Wait until the agent has delivered what it holds, and the server has written it."""
    wait_until(lambda: cluster.read_health()["spool"]["records"] == 0, 400.0)
    wait_until(lambda: cluster.read_metric("longpole_ingest_pending_requests") == 0, 400.0)
    assert cluster.read_metric("longpole_ingest_lost_requests_total") == 0
    health = cluster.read_health()
    assert (health["spool"]["dropped"], health["rejected"]) == (0, 0)
