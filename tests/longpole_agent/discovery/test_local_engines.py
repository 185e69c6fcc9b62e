from longpole_agent.discovery.local_engines import (
    Listener,
    Tables,
    find_engine_ports,
    read_system_tables,
)

COMMANDS = {
    1: "/usr/bin/python3 /usr/local/bin/vllm serve org/model --port 8000 --tensor-parallel-size 2",
    2: "python -m sglang.launch_server --model-path m --port=30000 --enable-metrics",
    3: "ray::vLLMHttpServer.generate",
    4: "nginx: master process nginx --port 80",
    5: "python train.py --engine vllm --port 9999",
    6: "python -m vllm.entrypoints.openai.api_server --model m",
    7: "vim vllm-notes.txt",
}


def find(*listeners: Listener) -> list[str]:
    tables = Tables(lambda: listeners, lambda pid: COMMANDS.get(pid, ""))
    return [target.address for target in find_engine_ports(tables)]


def test_ports_of_engines_are_found_and_no_others() -> None:
    assert find(
        Listener(1, "0.0.0.0", 8000),
        Listener(1, "127.0.0.1", 41_233),
        Listener(2, "10.0.0.7", 30_000),
        Listener(3, "10.0.0.7", 33_001),
        Listener(4, "0.0.0.0", 80),
        Listener(5, "127.0.0.1", 9999),
        Listener(6, "::", 8001),
        Listener(7, "127.0.0.1", 5000),
        Listener(99, "127.0.0.1", 6000),
    ) == ["127.0.0.1:8000", "10.0.0.7:30000", "10.0.0.7:33001", "127.0.0.1:8001"]


def test_a_shared_socket_is_one_page() -> None:
    assert find(Listener(6, "127.0.0.1", 8000), Listener(6, "127.0.0.1", 8000)) == [
        "127.0.0.1:8000"
    ]


def test_the_system_s_tables_can_be_read() -> None:
    assert find_engine_ports(read_system_tables()) is not None
