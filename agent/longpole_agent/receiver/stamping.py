"""Says of traces that name no sender who sent them: this node, and the job of the process.

RL-Insight's client and inference engines send spans whose resource is the same in every training.
"""

import gzip
import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from longpole.conventions.attributes import HOST_NAME
from longpole.conventions.rl_insight import JOB
from longpole_agent.batch import PROTOBUF, Signal
from longpole_agent.peers import Peers

# Host and port of the other end, None when the transport does not say.
Peer: TypeAlias = "tuple[str, int] | None"
# Signal, body, content type, content encoding and peer to body and encoding.
Stamp: TypeAlias = Callable[[Signal, bytes, str, str, Peer], tuple[bytes, str]]

# One of these stands in each request of the clients that name no sender: others pass unread.
_MONITOR_MARK = b"monitor.trace_"
_MARKS = (_MONITOR_MARK, b"gen_ai.latency.", b"gen_ai.request.id", b"sglang::request")


class TrainerPages(Protocol):
    """RL-Insight's pages of the trainers on this node."""

    def find_lone_job(self) -> str:
        """Return the job of the only live one, "" if there are none or several.

        Used where the process of a connection cannot be found.
        """
        ...

    def visit_trainer(self, job: str) -> None:
        """Read the page of a job now: its trainer may be about to end."""
        ...


class Stamper:
    """`Stamp` that adds `host.name` and `longpole.job` to resources without a host.

    Args:
        peers: Finds the job of a connection.
        host_name: This node.
        pages: The trainers' pages of this node.
    """

    def __init__(self, peers: Peers, host_name: str, pages: TrainerPages) -> None:
        self._peers = peers
        self._host_name = host_name
        self._pages = pages
        # A small body may be a large one when decompressed: one at a time is in memory.
        self._lock = threading.Lock()

    def __call__(
        self, signal: Signal, body: bytes, content_type: str, content_encoding: str, peer: Peer
    ) -> tuple[bytes, str]:
        """Return the body with its senders named, and its encoding; as it came where they are."""
        if signal != "traces" or not content_type.lower().startswith(PROTOBUF):
            return body, content_encoding
        with self._lock:
            return self._stamp(body, content_encoding, peer)

    def _stamp(self, body: bytes, content_encoding: str, peer: Peer) -> tuple[bytes, str]:
        try:
            plain = gzip.decompress(body) if content_encoding else body
            if not any(mark in plain for mark in _MARKS):
                return body, content_encoding
            request = ExportTraceServiceRequest.FromString(plain)
        except (DecodeError, OSError, EOFError):
            # Whoever checks the form refuses it.
            return body, content_encoding
        nameless = [
            each.resource
            for each in request.resource_spans
            if not any(pair.key == HOST_NAME for pair in each.resource.attributes)
        ]
        if not nameless:
            return body, content_encoding
        job = self._find_job(peer)
        if job and _MONITOR_MARK in plain:
            self._pages.visit_trainer(job)
        for resource in nameless:
            # What claims to be stamped was not stamped here.
            kept = [pair for pair in resource.attributes if pair.key != JOB]
            del resource.attributes[:]
            resource.attributes.extend(kept)
            resource.attributes.append(_text(HOST_NAME, self._host_name))
            if job:
                resource.attributes.append(_text(JOB, job))
        return request.SerializeToString(), ""

    def _find_job(self, peer: Peer) -> str:
        job = "" if peer is None else self._peers.find_sender(*peer)
        return job or self._pages.find_lone_job()


def _text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def read_grpc_peer(peer: str) -> Peer:
    """Return host and port from gRPC's text for a peer: `ipv4:127.0.0.1:5000`."""
    kind, _, address = peer.partition(":")
    host, _, port = address.replace("%5B", "[").replace("%5D", "]").rpartition(":")
    if kind not in {"ipv4", "ipv6"} or not port.isdecimal():
        return None
    return host.strip("[]"), int(port)
