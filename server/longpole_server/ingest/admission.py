"""Who may send, and what a sender that is bound to projects may send."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from google.protobuf.message import Message
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, ResourceMetrics
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

from longpole.conventions.attributes import (
    LEGACY_PROJECT,
    PROJECT,
    RUN_ATTEMPT,
    RUN_ID,
    SERVICE_NAME,
)
from longpole.conventions.rl_insight import JOB
from longpole_server.errors import ForbiddenError
from longpole_server.ingest.normalize.attributes import (
    Values,
    get_int,
    get_text,
    read_attributes,
)
from longpole_server.ingest.normalize.hardware import is_hardware
from longpole_server.ingest.normalize.identity import find_run_id, make_addressable
from longpole_server.ingest.normalize.points import read_points
from longpole_server.ingest.normalize.sender import AGENT_SERVICE, read_process
from longpole_server.ingest.normalize.spans import get_iteration
from longpole_server.ingest.owners import FindStarts, Owners
from longpole_server.ingest.signals import Signal
from longpole_server.model.principal import Principal

_RESOURCES = {"traces": "resource_spans", "metrics": "resource_metrics", "logs": "resource_logs"}


# What is parsed in less time than a thread takes to be handed something.
_QUICK_BYTES = 32 << 10


def is_quick(body: bytes, sender: Principal) -> bool:
    """Tell whether a request in protobuf can be judged where it came in, without a thread."""
    return len(body) <= _QUICK_BYTES and sender.projects is None


@dataclass(frozen=True, slots=True)
class Admission:
    """Decides about senders.

    Attributes:
        find_sender: Told the value of the `Authorization` header, None without one; returns who
            may send with it, None when nobody may.
        find_starts: Returns the attempts of a run, and of those whose ids are its own with `#` and
            a number behind; by run and attempt. None of a run that is not known.
    """

    find_sender: Callable[[str | None], Principal | None]
    find_starts: FindStarts = lambda _: ()

    def check(self, sender: Principal, signal: Signal, request: Message) -> None:
        """Let a request pass whose every resource says that it belongs to the sender's projects.

        Such a sender names its run: what the server would else go by to find one (a job, a host, a
        service) anybody can guess. Spans and events may name a project or a run of their own beside
        their resource's; those are looked at too.

        Raises:
            ForbiddenError: Something belongs elsewhere, or does not say where.
            BadRequestError: It names more runs than are looked up for one request.
        """
        if sender.projects is None:
            return
        owners = Owners(sender, self.find_starts)
        for group in getattr(request, _RESOURCES[signal]):
            values = read_attributes(group.resource.attributes)
            _check_named(sender, values)
            _check_claims(sender, owners, values)
            if signal == "metrics":
                _check_metrics(sender, group)
            else:
                for each in _list_spans(group) if signal == "traces" else _list_events(group):
                    _check_claims(sender, owners, read_attributes(each.attributes))


def _check_claims(sender: Principal, owners: Owners, values: Values) -> None:
    project = _find_project(values)
    if project is not None and not sender.sees(project):
        raise ForbiddenError(f"{sender.name} may not send to project {project!r}.")
    run_id = find_run_id(values)
    if run_id is not None:
        owners.check(make_addressable(run_id), read_process(values), get_int(values, RUN_ATTEMPT))


def _check_named(sender: Principal, values: Values) -> None:
    """Refuse a resource that names no project or run, or speaks for more than one process."""
    if _find_project(values) is None:
        raise ForbiddenError(
            f"{sender.name} may send to single projects, and the data names none.",
            hint=f"Set the resource attribute {PROJECT}.",
        )
    if JOB in values or get_text(values, SERVICE_NAME) == AGENT_SERVICE:
        raise ForbiddenError(
            f"{sender.name} may send to single projects, and the data comes by an agent, "
            "which serves a whole node.",
            hint=f"Give the agent a token without projects, or send to the server without it. "
            f"({JOB} is for agents.)",
        )
    if find_run_id(values) is None:
        raise ForbiddenError(
            f"{sender.name} may send to single projects, and the data names no run.",
            hint=f"Set the resource attribute {RUN_ID}, such as by OTEL_RESOURCE_ATTRIBUTES="
            f"{PROJECT}=...,{RUN_ID}=... for an engine.",
        )


def _check_metrics(sender: Principal, group: ResourceMetrics) -> None:
    for scope in group.scope_metrics:
        for metric in scope.metrics:
            if is_hardware(metric.name) and not _is_scalar(metric):
                raise ForbiddenError(
                    f"{sender.name} may send to single projects, and {metric.name[:64]!r} is about "
                    "a node, which belongs to none.",
                    hint="Let an agent with a token without projects send it, or leave it out.",
                )


def _is_scalar(metric: Metric) -> bool:
    """Tell whether a trainer logged a metric by step; then it is the run's whatever its name."""
    return all(get_iteration(point.values) is not None for point in read_points(metric, 0))


def _find_project(values: Values) -> str | None:
    return get_text(values, PROJECT) or get_text(values, LEGACY_PROJECT)


def _list_spans(group: ResourceSpans) -> Iterable[Span]:
    return (span for scope in group.scope_spans for span in scope.spans)


def _list_events(group: ResourceLogs) -> Iterable[LogRecord]:
    return (record for scope in group.scope_logs for record in scope.log_records)
