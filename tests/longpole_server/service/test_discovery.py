from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from longpole_server.errors import BadRequestError, TooLargeError
from longpole_server.model.discovery import Registration, ScrapeTarget, ScrapingAgent
from longpole_server.service.discovery import (
    EXPIRE_NS,
    MAX_KNOWN_TARGETS,
    MAX_LABELS,
    MAX_TARGETS,
    Discovery,
)
from support.server_service import ServiceBench

MINUTE_NS = 60 * 10**9


@dataclass
class Shelf:
    """Keeps targets in memory, by the key of the store's table."""

    targets: dict[tuple[str, str, str, str], ScrapeTarget] = field(
        default_factory=dict[tuple[str, str, str, str], ScrapeTarget]
    )
    now_ns: int = 100 * EXPIRE_NS

    def write_scrape_targets(self, targets: Sequence[ScrapeTarget]) -> None:
        for target in targets:
            key = (target.job_name, target.target, target.host, target.sender_address)
            self.targets[key] = target

    def list_scrape_targets(self, since_ns: int) -> Sequence[ScrapeTarget]:
        return [target for _, target in sorted(self.targets.items()) if target.seen_ns >= since_ns]


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def discovery(shelf: Shelf) -> Discovery:
    return Discovery(shelf, shelf, lambda: shelf.now_ns)


def ask(discovery: Discovery, host: str, *addresses: str, is_local: bool = False) -> list[str]:
    agent = ScrapingAgent(host, frozenset(addresses), is_local)
    return [target.target for target in discovery.list_targets(agent)]


def register(
    discovery: Discovery,
    *targets: str,
    job_name: str = "rollout",
    host: str | None = None,
    address: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> int:
    return discovery.register(
        Registration(job_name, tuple((target, labels or {}) for target in targets), host, address)
    )


def test_a_page_belongs_to_the_node_that_its_target_names(discovery: Discovery):
    register(discovery, "node-7.cluster:8000", "10.0.0.8:8000", "[2001:db8::9]:8000")
    assert ask(discovery, "node-7") == ["node-7.cluster:8000"]
    assert ask(discovery, "node-8", "10.0.0.8", "2001:db8::8") == ["10.0.0.8:8000"]
    assert ask(discovery, "node-9", "2001:db8::9") == ["[2001:db8::9]:8000"]
    assert ask(discovery, "node-10", "10.0.0.10") == []


def test_a_loopback_page_belongs_to_the_node_that_registered_it(discovery: Discovery):
    register(discovery, "127.0.0.1:8000", address="::ffff:10.0.0.7")
    register(discovery, "localhost:8000", host="node-8", address="10.0.0.7")
    register(discovery, "[::1]:8000", labels={"host": "node-9"}, host="node-8")
    assert ask(discovery, "node-7", "10.0.0.7") == ["127.0.0.1:8000"]
    assert ask(discovery, "node-8.cluster", "10.0.0.8") == ["localhost:8000"]
    assert ask(discovery, "node-9") == ["[::1]:8000"]
    assert ask(discovery, "server", "127.0.0.1", is_local=True) == []


def test_the_same_loopback_page_of_two_nodes_is_two_pages(discovery: Discovery):
    for host in ("node-7", "node-8"):
        register(discovery, "127.0.0.1:8000", host=host)
    assert ask(discovery, "node-7") == ask(discovery, "node-8") == ["127.0.0.1:8000"]


def test_on_one_machine_the_local_agent_takes_loopback_pages(discovery: Discovery):
    register(discovery, "localhost:9092", address="127.0.0.1")
    assert ask(discovery, "server", "127.0.0.1", "::1", is_local=True) == ["localhost:9092"]
    assert ask(discovery, "server", "::1", is_local=True) == ["localhost:9092"]
    assert ask(discovery, "node-7", "10.0.0.7") == []


def test_a_label_names_the_node_of_any_page(discovery: Discovery):
    register(discovery, "10.0.0.8:8000", labels={"host": "node-7"})
    assert ask(discovery, "node-7") == ["10.0.0.8:8000"]
    assert ask(discovery, "node-8", "10.0.0.8") == []


def test_the_local_agent_takes_what_belongs_to_no_agent_that_asks(
    discovery: Discovery, shelf: Shelf
):
    register(discovery, "10.0.0.7:8000", "10.0.0.8:8000")
    assert ask(discovery, "node-7", "10.0.0.7") == ["10.0.0.7:8000"]
    assert ask(discovery, "server", "127.0.0.1", is_local=True) == ["10.0.0.8:8000"]
    assert ask(discovery, "node-8", "10.0.0.8") == ["10.0.0.8:8000"]
    assert ask(discovery, "server", "127.0.0.1", is_local=True) == []
    shelf.now_ns += 6 * MINUTE_NS
    both = ["10.0.0.7:8000", "10.0.0.8:8000"]
    assert ask(discovery, "server", "127.0.0.1", is_local=True) == both


def test_pages_expire_unless_registered_again(discovery: Discovery, shelf: Shelf):
    register(discovery, "node-7:1", "node-7:2")
    shelf.now_ns += EXPIRE_NS - MINUTE_NS
    assert register(discovery, "node-7:2") == 2
    shelf.now_ns += 2 * MINUTE_NS
    assert ask(discovery, "node-7") == ["node-7:2"]
    assert register(discovery, "node-7:3") == 2


def test_registering_again_replaces_labels_and_counts_once(discovery: Discovery, shelf: Shelf):
    assert register(discovery, "node-7:1", labels={"replica": "0"}) == 1
    assert register(discovery, "NODE-7:1", "node-7:1", labels={"replica": "1"}) == 1
    assert register(discovery, "node-7:1", job_name="other") == 1
    labels = [dict(target.labels) for target in shelf.list_scrape_targets(0)]
    assert labels == [{}, {"replica": "1"}]


@pytest.mark.parametrize(
    "registration",
    [
        Registration("", (("node:1", {}),)),
        Registration("j" * 201, (("node:1", {}),)),
        Registration("job\n", (("node:1", {}),)),
        Registration("job", ()),
        Registration("job", (("node:1", {}), ("http://node:1", {}))),
        Registration("job", (("node:1", {"__address__": "other:1"}),)),
        Registration("job", (("node:1", {"": "x"}),)),
        Registration("job", (("node:1", {"7": "x"}),)),
        Registration("job", (("node:1", {"a-b": "x"}),)),
        Registration("job", (("node:1", {"name": "x" * 1_025}),)),
        Registration("job", (("node:1", {"name": "\x00"}),)),
        Registration("job", (("node:1", {}),), host=" "),
        Registration("job", (("node:1", {}),), host="h" * 201),
    ],
)
def test_what_makes_no_sense_is_refused_as_a_whole(
    discovery: Discovery, shelf: Shelf, registration: Registration
):
    with pytest.raises(BadRequestError):
        discovery.register(registration)
    assert not shelf.targets


def test_too_much_is_refused(discovery: Discovery, shelf: Shelf):
    with pytest.raises(TooLargeError, match="in one request"):
        register(discovery, *(f"node-7:{port}" for port in range(1, MAX_TARGETS + 2)))
    with pytest.raises(TooLargeError, match="labels"):
        register(discovery, "node-7:1", labels={f"l{n}": "" for n in range(MAX_LABELS + 1)})
    one = ScrapeTarget("full", "node", shelf.now_ns)
    shelf.write_scrape_targets(
        [replace(one, target=f"node-{n}:1") for n in range(MAX_KNOWN_TARGETS)]
    )
    with pytest.raises(TooLargeError, match="are registered"):
        register(discovery, "node-7:2")
    assert register(discovery, "node-7:1", job_name="full") == MAX_KNOWN_TARGETS


def test_pages_outlive_the_process(bench: ServiceBench):
    registration = Registration("durable", (("node-7:1", {"replica": "0"}),))
    assert bench.service.register_scrape_targets(registration) == 1
    bench.clock.seconds += 60.0
    assert bench.service.register_scrape_targets(registration) == 1
    reopened = bench.reopened().service
    (target,) = [
        target
        for target in reopened.list_scrape_targets(ScrapingAgent("node-7"))
        if target.job_name == "durable"
    ]
    assert target == ScrapeTarget(
        "durable", "node-7:1", bench.clock.now_ns(), {"replica": "0"}, "", ""
    )


def test_a_trainer_s_address_is_its_job_s_until_another_registers_from_there(
    discovery: Discovery, shelf: Shelf
):
    register(discovery, "10.0.0.1:9092", job_name="trainer_metrics", address="10.0.0.1")
    register(discovery, "10.0.0.1:31000", "10.0.0.2:31000", address="10.0.0.1")
    first = discovery.find_job("10.0.0.1")
    assert first
    # Engines lie on the nodes of its ranks.
    assert discovery.find_job("::ffff:10.0.0.2") == first
    assert discovery.find_job("10.0.0.3") == ""
    agent = ScrapingAgent("beside", frozenset(), is_local=True)
    assert {target.labels["longpole_job"] for target in discovery.list_targets(agent)} == {first}
    shelf.now_ns += MINUTE_NS
    register(discovery, "10.0.0.1:9092", job_name="trainer_metrics", address="10.0.0.1")
    again = discovery.find_job("10.0.0.1")
    assert again and again != first
    register(discovery, "10.0.0.1:9093", job_name="trainer_metrics", address="10.0.0.1")
    assert discovery.find_job("10.0.0.1") == ""
    assert all("longpole_job" not in target.labels for target in discovery.list_targets(agent))


def test_two_trainings_on_one_node_are_not_told_apart_by_it(discovery: Discovery):
    for address in ("10.0.0.1", "10.0.0.2"):
        register(discovery, f"{address}:9092", job_name="trainer_metrics", address=address)
        register(discovery, "10.0.0.9:31000", address=address, labels={"of": address})
    assert discovery.find_job("10.0.0.9") != discovery.find_job("10.0.0.1")


def test_what_an_agent_registers_is_left_to_the_agent(discovery: Discovery):
    register(
        discovery, "10.0.0.1:9092", job_name="trainer_metrics", host="node", address="10.0.0.1"
    )
    assert discovery.find_job("10.0.0.1") == ""
