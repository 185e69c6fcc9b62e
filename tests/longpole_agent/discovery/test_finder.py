from longpole_agent.discovery.finder import EngineFinder
from longpole_agent.sources.pages import PageError
from longpole_agent.targets import Target

MINUTE_NS = 60 * 10**9


class Bench:
    def __init__(self) -> None:
        self.now_ns = 0
        self.fetched: list[str] = []
        self.pages = {
            "127.0.0.1:8000": 'python_info 1\nvllm:num_requests_running{engine="0"} 1\n',
            "127.0.0.1:9100": "node_load1 0.5\n",
        }
        self.candidates = [Target("discovered", address) for address in self.pages]
        self.candidates.append(Target("discovered", "127.0.0.1:22"))
        self.finder = EngineFinder([lambda: self.candidates], self.fetch, lambda: self.now_ns)

    def fetch(self, target: str) -> str:
        self.fetched.append(target)
        if target not in self.pages:
            raise PageError("refused")
        return self.pages[target]

    def find(self, after_s: float = 20.0) -> list[str]:
        self.now_ns += round(after_s * 1e9)
        return [target.address for target in self.finder()]


def test_what_shows_an_engine_s_series_is_found_and_looked_at_once() -> None:
    bench = Bench()
    assert bench.find() == ["127.0.0.1:8000"]
    assert bench.find() == ["127.0.0.1:8000"]
    assert sorted(bench.fetched) == ["127.0.0.1:22", "127.0.0.1:8000", "127.0.0.1:9100"]


def test_an_engine_that_loads_is_found_when_it_answers_and_gone_with_its_port() -> None:
    bench = Bench()
    bench.find()
    bench.pages["127.0.0.1:22"] = "sglang:token_usage 0.5\n"
    assert bench.find() == ["127.0.0.1:8000"]
    assert bench.find(60.0) == ["127.0.0.1:8000", "127.0.0.1:22"]
    del bench.candidates[0]
    assert bench.find() == ["127.0.0.1:22"]
