import threading
from collections.abc import Callable, Sequence

from longpole_agent.sources.pages import PageError
from longpole_agent.sources.scraping import ScrapeSource
from longpole_agent.sources.source import Point
from longpole_agent.targets import Target
from support.agent_waiting import wait_until

S = 1_000_000_000
ENGINE = Target("vllm", "h:1", (), 1)
TRAINER = Target("trainer_metrics", "h:2", (), 1)


class Peers:
    def find_sender(self, address: str, port: int) -> str:
        return ""

    def find_listener(self, port: int) -> str:
        return f"process/{port}"


class Node:
    """Pages of a node, and the source that reads them."""

    def __init__(self, *targets: Target) -> None:
        self.targets: Sequence[Target] = targets
        self.answers: dict[str, Callable[[], str]] = {}
        self.num_read: dict[str, int] = {}
        self.source = ScrapeSource(
            self,
            self._fetch,
            Peers(),
            2.0,
            "node-1",
            patience_s=10.0,
            now_ns=lambda: 99 * S,
            list_addresses=lambda: ["h"],
        )

    def _fetch(self, target: str) -> str:
        self.num_read[target] = self.num_read.get(target, 0) + 1
        return self.answers[target]()

    def sample(self, second: float) -> list[Point]:
        points = self.source.sample(round(second * S))
        return [point for point in points if not point.metric.startswith("longpole.agent.")]


def show_step(step: int) -> str:
    return f'rl_insight_monitor_training_global_step{{project="p",experiment_name="e"}} {step}\n'


def refuse() -> str:
    raise PageError("Connection refused")


def test_an_engine_is_read_every_other_second_and_its_process_names_the_job() -> None:
    node = Node(ENGINE)
    node.answers["h:1"] = lambda: "vllm:x 1"
    times = [second for second in range(1, 6) if node.sample(second)]
    assert times == [1, 3, 5]
    node.targets = [Target("vllm", "h:1", (("longpole_job", "ray/s/01"),), 2)]
    (point,) = node.sample(7)
    assert dict(point.resource)["longpole.job"] == "ray/s/01"
    node.source.close()


def test_a_dead_page_is_tried_ever_more_rarely_until_it_is_registered_anew() -> None:
    node = Node(ENGINE)
    node.answers["h:1"] = refuse
    for second in range(1, 200):
        node.sample(second)
    assert node.num_read["h:1"] < 15
    health = node.source.describe()
    assert health["failing"] == {"h:1": "Connection refused"}
    assert health["failed"] == node.num_read["h:1"]
    node.answers["h:1"] = lambda: "vllm:x 1"
    node.targets = [Target("vllm", "h:1", (), 2)]
    assert node.sample(200)
    node.source.close()


def test_a_slow_page_keeps_nobody_waiting_and_comes_later() -> None:
    release = threading.Event()
    node = Node(ENGINE, Target("vllm", "h:3"))

    def hang() -> str:
        release.wait(60)
        return "vllm:slow 1"

    node.answers = {"h:1": hang, "h:3": lambda: "vllm:fast 1"}
    node.source = ScrapeSource(node, node._fetch, Peers(), 2.0, "node-1", patience_s=0.05)
    found = {point.metric for second in (1, 3, 5) for point in node.sample(second)}
    assert found <= {"vllm:fast"}
    assert node.num_read["h:1"] == 1
    release.set()
    wait_until(lambda: "vllm:slow" in {point.metric for point in node.sample(7)})
    node.source.close()


def test_a_live_page_is_read_beside_many_that_never_answer() -> None:
    release = threading.Event()
    node = Node(ENGINE)
    node.source = ScrapeSource(node, node._fetch, Peers(), 0.0, "node-1", patience_s=0.01)

    def hang() -> str:
        release.wait(60)
        return refuse()

    node.answers["h:1"] = lambda: "vllm:x 1"
    wait_until(lambda: bool(node.sample(1)))
    dead = [Target("vllm", f"h:{port}", (), port) for port in range(100, 164)]
    node.answers |= dict.fromkeys((each.address for each in dead), hang)
    node.targets = [ENGINE, *dead]
    for second in range(2, 12):
        read = node.num_read["h:1"]
        wait_until(lambda second=second: bool(node.sample(second)))
        assert node.num_read["h:1"] > read
    # Each dead one is asked once at a time, and few of them.
    assert sum(node.num_read.get(each.address, 0) for each in dead) <= 4
    release.set()
    node.source.close()


def test_a_page_registered_last_is_asked_before_many_dead_ones() -> None:
    node = Node()
    dead = [Target("vllm", f"h:{port}", (), port) for port in range(100, 164)]
    node.answers = dict.fromkeys((each.address for each in dead), refuse)
    node.targets = dead
    for second in range(1, 4):
        node.sample(second)
    node.answers["h:1"] = lambda: "vllm:x 1"
    node.targets = [*dead, Target("vllm", "h:1", (), 999)]
    assert [point.metric for point in node.sample(4)] == ["vllm:x"]
    # All the dead ones have their turn.
    for second in range(5, 30):
        node.sample(second)
    nums = {node.num_read[each.address] for each in dead}
    assert max(nums) - min(nums) <= 1
    node.source.close()


def test_a_trainer_that_ends_is_looked_at_once_more() -> None:
    node = Node(TRAINER)
    node.answers["h:2"] = lambda: show_step(1)
    assert [point.value for point in node.sample(1)] == [1.0]
    assert node.source.find_lone_job() == "process/2"
    node.answers["h:2"] = lambda: show_step(2)
    node.source.visit_trainer("process/other")
    node.source.visit_trainer("process/2")
    node.answers["h:2"] = refuse
    points = node.sample(2)
    assert [(point.value, point.ts_ns) for point in points] == [(2.0, 99 * S)]
    assert dict(points[0].resource)["longpole.job"] == "process/2"
    node.source.close()


def test_a_step_right_before_a_trainer_s_end_is_seen_between_two_ticks() -> None:
    node = Node(ENGINE, TRAINER)
    node.answers = {"h:1": lambda: "vllm:x 1", "h:2": lambda: show_step(1)}
    node.sample(1)
    node.answers["h:2"] = lambda: show_step(2)
    node.source.look_at_trainers()
    # A glance, and the page until it stands still.
    wait_until(lambda: node.num_read["h:2"] == 5)
    node.answers["h:2"] = refuse
    for _ in range(50):
        node.source.look_at_trainers()
    # An engine's page outlives every step, and what has failed waits for its tick.
    assert node.num_read["h:1"] == 1
    assert node.num_read["h:2"] <= 6
    assert [(point.value, point.ts_ns) for point in node.sample(2)] == [(2.0, 99 * S)]
    assert node.source.describe()["failed"] <= 1
    node.source.close()


def test_pages_are_looked_at_between_ticks_once_it_is_started() -> None:
    node = Node(TRAINER)
    node.answers["h:2"] = lambda: show_step(1)
    node.sample(1)
    seen = node.num_read["h:2"]
    node.source.start()
    wait_until(lambda: node.num_read["h:2"] > seen)
    node.source.close()


def test_visits_that_nobody_takes_come_to_an_end() -> None:
    node = Node(TRAINER)
    node.answers["h:2"] = lambda: show_step(1)
    node.sample(1)
    wait_until(lambda: node.source.look_at_trainers() or node.num_read["h:2"] >= 12)
    for _ in range(20):
        node.source.look_at_trainers()
    assert node.num_read["h:2"] == 12
    node.source.close()


def test_of_two_trainers_none_is_the_only_one() -> None:
    node = Node(TRAINER, Target("trainer_metrics", "h:4"))
    node.answers = {"h:2": lambda: show_step(1), "h:4": lambda: show_step(5)}
    assert len(node.sample(1)) == 2
    assert node.source.find_lone_job() == ""
    node.answers["h:4"] = refuse
    node.sample(2)
    assert node.source.find_lone_job() == "process/2"
    node.source.close()


def test_a_port_of_a_pod_is_no_port_of_its_node() -> None:
    node = Node(Target("kubernetes-pods", "10.2.0.9:8000"), Target("discovered", "127.0.0.1:8000"))
    node.answers = {target.address: lambda: "vllm:x 1" for target in node.targets}
    jobs = [dict(point.resource)["longpole.job"] for point in node.sample(1)]
    assert jobs == ["page/node-1/10.2.0.9:8000/0", "process/8000"]
