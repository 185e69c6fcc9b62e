import pytest

from longpole_agent.receiver.host_door import HostDoor
from support.agent_asgi import Message, call


class Behind:
    """What stands behind the door, with what came through."""

    def __init__(self) -> None:
        self.passed_on: list[str] = []
        self.door = HostDoor(self._answer, {"node-1"})

    async def _answer(self, scope: Message, receive: object, send: object) -> None:
        self.passed_on.append(f"{scope['method']} {scope['path']}")


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/api/v1/services", "/none"])
async def test_a_page_on_a_stranger_s_name_reads_nothing(path: str) -> None:
    behind = Behind()
    answer = await call(behind.door, "GET", path, headers={"host": "rebound.example:4318"})
    assert answer is not None
    assert answer.status == 403
    assert b"localhost" in answer.body
    assert behind.passed_on == []


@pytest.mark.parametrize("host", ["127.0.0.1:4318", "localhost:4318", "[::1]:4318", "node-1:4318"])
async def test_the_node_s_own_names_read(host: str) -> None:
    behind = Behind()
    assert await call(behind.door, "GET", "/health", headers={"host": host}) is None
    assert behind.passed_on == ["GET /health"]


async def test_a_trainer_may_have_a_name_of_its_own_for_loopback() -> None:
    behind = Behind()
    await call(behind.door, "POST", "/v1/traces", headers={"host": "collector.example"})
    assert behind.passed_on == ["POST /v1/traces"]
