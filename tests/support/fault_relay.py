"""A wire between two programs that breaks as tests like: it cuts, swallows answers, goes away."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

_CHUNK_BYTES = 16 * 1024


class Relay:
    """Passes connections to a port on to another one that may change.

    Attributes:
        target: Port on this machine, None: nobody is there.
        cut: Asked for each piece of data with its direction, "there" or "back": whether the
            connection breaks instead of carrying it. A broken connection is reset.
        num_bytes_there: What was carried to the target.
    """

    def __init__(self) -> None:
        self.target: int | None = None
        self.cut: Callable[[str], bool] = lambda direction: False
        self.num_cuts = 0
        self.num_bytes_there = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._carriers: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Listen no more, and break what is open."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        with self._lock:
            for one in self._sockets:
                _reset(one)
        for thread in self._carriers:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._carry, args=(near,))
            self._carriers = [one for one in self._carriers if one.is_alive()] + [thread]
            thread.start()

    def _carry(self, near: socket.socket) -> None:
        try:
            if self.target is None:
                raise OSError
            far = socket.create_connection(("127.0.0.1", self.target), timeout=60)
        except OSError:
            _reset(near)
            near.close()
            return
        far.settimeout(None)
        with self._lock:
            self._sockets |= {near, far}
        back = threading.Thread(target=self._pump, args=(far, near, "back"))
        back.start()
        self._pump(near, far, "there")
        back.join()
        with self._lock:
            self._sockets -= {near, far}
        near.close()
        far.close()

    def _pump(self, source: socket.socket, sink: socket.socket, direction: str) -> None:
        try:
            while data := source.recv(_CHUNK_BYTES):
                if self.cut(direction):
                    self.num_cuts += 1
                    _reset(source)
                    _reset(sink)
                    return
                if direction == "there":
                    with self._lock:
                        self.num_bytes_there += len(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            _reset(source)
            _reset(sink)


def _reset(one: socket.socket) -> None:
    """Make the peer see a reset, also when another thread reads from the socket."""
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.shutdown(socket.SHUT_RDWR)
