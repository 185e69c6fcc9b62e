import os
import socket

import pytest

from longpole_agent.peers import ProcessPeers, name_job_of


def name_own(node: str, pid: int) -> str:
    return f"{node}/{pid}"


def test_both_ends_of_a_connection_are_found() -> None:
    clock = [0.0]
    peers = ProcessPeers("node-1", name_own, lambda: clock[0])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as connection:
            accepted, address = listening.accept()
            with accepted:
                assert peers.find_sender(*address) == f"node-1/{os.getpid()}"
                assert peers.find_sender("::ffff:127.0.0.1", address[1])
            assert peers.find_listener(port) == f"node-1/{os.getpid()}"
            assert connection.getsockname() == address


def test_nobody_s_socket_has_no_job() -> None:
    peers = ProcessPeers("node-1", name_own)
    assert peers.find_sender("192.0.2.1", 9) == ""
    assert peers.find_listener(1) == ""


def test_the_table_is_read_once_a_second_at_most() -> None:
    clock = [0.0]
    peers = ProcessPeers("node-1", name_own, lambda: clock[0])
    peers.find_listener(1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert peers.find_listener(port) == ""
        clock[0] = 1.5
        assert peers.find_listener(port) != ""


def test_a_connection_younger_than_the_table_is_found_all_the_same() -> None:
    pauses: list[float] = []
    peers = ProcessPeers("node-1", name_own, lambda: 0.25 * bool(pauses or armed), pauses.append)
    armed: list[bool] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert peers.find_listener(port)
        armed.append(True)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            assert peers.find_sender(*connection.getsockname())
    assert pauses == [0.75]


def test_a_process_without_a_ray_job_is_its_own_job() -> None:
    job = name_job_of("node-1", os.getpid())
    assert job.startswith(f"process/node-1/{os.getpid()}/")


@pytest.mark.parametrize("pid", [2**22 + 1])
def test_a_process_that_has_gone_has_none(pid: int) -> None:
    assert name_job_of("node-1", pid) == ""
