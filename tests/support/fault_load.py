"""Senders that go on whatever happens to whom they send, and write down what they were told."""

import contextlib
import http.client
import itertools
import random
import threading
from collections.abc import Callable, Generator
from typing import Any

import grpc

from support.fault_ledger import KINDS, Kind, Ledger, Outcome, make_request

# Least time between two requests of a sender, so that programs under test get a turn.
_PACE_S = 0.04
_TIMEOUT_S = 60.0
_METHODS = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}


class Address:
    """Ports of a program, None while it is away."""

    def __init__(self) -> None:
        self.ports: dict[str, int] | None = None


class Load:
    """Sends until told to stop; each sender is a thread.

    Args:
        ledger: Gives numbers and keeps outcomes.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []
        self._allowances: list[threading.Semaphore] = []

    def add_plain(self, address: Address) -> None:
        """Each request once over HTTP, as a client that does not try again."""
        self._add(
            lambda allowance: self._send_each_once(
                lambda k, n: send_http(address, k, n, None), allowance
            )
        )

    def add_grpc(self, address: Address) -> None:
        """The same over gRPC."""

        def work(allowance: threading.Semaphore) -> None:
            with contextlib.closing(GrpcSender(address)) as sender:
                self._send_each_once(sender.send, allowance)

        self._add(work)

    def add_owner(self, address: Address, name: str) -> None:
        """Each request until it is acknowledged, always under its batch id."""
        self._add(lambda allowance: self._send_until_acknowledged(address, name, allowance))

    @contextlib.contextmanager
    def running(self) -> Generator[None]:
        """Send while the block runs."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()
        assert not self._failures, self._failures

    def allow(self, num_requests: int) -> None:
        """Let each sender send so many more: how much is sent depends on no machine's pace."""
        for allowance in self._allowances:
            allowance.release(num_requests)

    def _add(self, work: Callable[[threading.Semaphore], None]) -> None:
        allowance = threading.Semaphore(0)
        self._allowances.append(allowance)

        def guarded() -> None:
            try:
                work(allowance)
            except BaseException as error:
                self._failures.append(error)
                raise

        self._threads.append(threading.Thread(target=guarded))

    def _may_send(self, allowance: threading.Semaphore) -> bool:
        """Wait for the next turn; False at the end."""
        if self._stop.wait(_PACE_S):
            return False
        while not allowance.acquire(timeout=0.1):
            if self._stop.is_set():
                return False
        return True

    def _send_each_once(
        self, send: Callable[[Kind, int], Outcome], allowance: threading.Semaphore
    ) -> None:
        for kind in itertools.cycle(KINDS):
            if not self._may_send(allowance):
                return
            number = self._ledger.take()
            self._ledger.note(kind, number, "unknown")
            self._ledger.note(kind, number, send(kind, number))

    def _send_until_acknowledged(
        self, address: Address, name: str, allowance: threading.Semaphore
    ) -> None:
        chance = random.Random(name)
        for kind in itertools.cycle(KINDS):
            if not self._may_send(allowance):
                return
            number = self._ledger.take()
            batch_id = f"{name}/boot/{number}"
            self._ledger.note(kind, number, "unknown")
            while send_http(address, kind, number, batch_id) != "acknowledged":
                if self._stop.wait(0.05):
                    return
            self._ledger.note(kind, number, "acknowledged")
            # As if the answer had been lost.
            if chance.random() < 0.2:
                send_http(address, kind, number, batch_id)


def send_http(
    address: Address, kind: Kind, number: int, batch_id: str | None, body: bytes | None = None
) -> Outcome:
    """Send a request, that of a number unless another is given, on a connection of its own."""
    if address.ports is None:
        return "refused"
    headers = {"Content-Type": "application/x-protobuf"}
    if batch_id is not None:
        headers["longpole-batch-id"] = batch_id
    connection = http.client.HTTPConnection("127.0.0.1", address.ports["http"], timeout=_TIMEOUT_S)
    try:
        connection.connect()
    except OSError:
        return "refused"
    try:
        connection.request("POST", f"/v1/{kind}", body or make_request(kind, number), headers)
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException):
        return "unknown"
    finally:
        connection.close()
    if answer.status == 200:
        return "acknowledged"
    assert answer.status in {429, 503}, answer.status
    # The disk may have taken what could not be synced.
    return "unknown" if answer.status == 503 else "refused"


class GrpcSender:
    """Sends over gRPC, on one channel as long as the program listens where it did."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._channel: Any = None
        self._port = 0

    def send(self, kind: Kind, number: int) -> Outcome:
        """Send a request once."""
        ports = self._address.ports
        if ports is None:
            return "refused"
        if self._channel is None or ports["grpc"] != self._port:
            self.close()
            self._port = ports["grpc"]
            self._channel = grpc.insecure_channel(f"127.0.0.1:{self._port}")
        call: Any = self._channel.unary_unary(_METHODS[kind])
        try:
            call(make_request(kind, number), timeout=_TIMEOUT_S)
        except grpc.RpcError:
            return "unknown"
        return "acknowledged"

    def close(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
