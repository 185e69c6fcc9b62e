"""Spans of RL-Insight's client that come without an agent between: who sent them.

Their resource is the same in every training. What tells them apart is where they come from.
"""

import ipaddress
import logging
from collections.abc import Callable

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from longpole.conventions.attributes import HOST_NAME
from longpole.conventions.rl_insight import JOB
from longpole_server.errors import ServerError

_log = logging.getLogger(__name__)

_MARK = b"monitor.trace_"
# Returns the job that works at a network address, "" when nobody knows.
FindJob = Callable[[str], str]


def may_be_nameless(body: bytes) -> bool:
    """Tell whether a trace request may hold spans whose sender has to be found. Cheap."""
    return _MARK in body


def name_senders(body: bytes, peer: str | None, find_job: FindJob) -> bytes:
    """Return a trace request with the job of those that name neither host nor job.

    Args:
        body: The request in protobuf.
        peer: The address it came from.
        find_job: Finds jobs.
    """
    if peer is None or not may_be_nameless(body):
        return body
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        return body
    nameless = [
        each.resource
        for each in request.resource_spans
        if all(pair.key not in {HOST_NAME, JOB} for pair in each.resource.attributes)
    ]
    if not nameless:
        return body
    try:
        job = find_job(peer)
    except ServerError as error:
        _log.warning("cannot tell whose the spans from %s are: %s", peer, error)
        return body
    if not job:
        return body
    for resource in nameless:
        resource.attributes.append(KeyValue(key=JOB, value=AnyValue(string_value=job)))
        if not _is_loopback(peer):
            resource.attributes.append(KeyValue(key=HOST_NAME, value=AnyValue(string_value=peer)))
    return request.SerializeToString()


def _is_loopback(peer: str) -> bool:
    try:
        return ipaddress.ip_address(peer).is_loopback
    except ValueError:
        return False
