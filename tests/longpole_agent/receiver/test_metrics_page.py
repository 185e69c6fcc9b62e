from longpole_agent.receiver.metrics_page import MetricsDoor, OwnMetric, render_metrics
from support.agent_asgi import Answer, Message, call


class Door:
    """The door before an application that answers nothing."""

    def __init__(self) -> None:
        self.metrics = [OwnMetric("a_total", "counter", "what a is", [("", 3)])]
        self.app = MetricsDoor(self._inner, lambda: self.metrics)

    async def _inner(self, scope: Message, receive: object, send: object) -> None:
        self.passed_on = scope["path"]

    async def get(self, path: str, method: str = "GET") -> Answer:
        answer = await call(self.app, method, path)
        assert answer is not None
        return answer


async def test_figures_in_prometheus_text_format() -> None:
    door = Door()
    answer = await door.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert answer.body.decode() == "# HELP a_total what a is\n# TYPE a_total counter\na_total 3.0\n"


def test_labels_are_escaped() -> None:
    metric = OwnMetric("a", "gauge", "what a is", [('"\\\n', 1), ("b", 0)], "source")
    assert render_metrics([metric]).splitlines()[2:] == [
        'a{source="\\"\\\\\\n"} 1.0',
        'a{source="b"} 0.0',
    ]


async def test_only_reading() -> None:
    answer = await Door().get("/metrics", "POST")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_other_paths_are_passed_on() -> None:
    door = Door()
    assert await call(door.app, "GET", "/health") is None
    assert door.passed_on == "/health"
