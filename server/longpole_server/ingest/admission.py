"""Who may send, and what a sender that is bound to projects may send."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from google.protobuf.message import Message
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

from longpole.conventions.attributes import LEGACY_PROJECT, PROJECT
from longpole_server.errors import ForbiddenError
from longpole_server.ingest.normalize.attributes import Values, get_text, read_attributes
from longpole_server.ingest.normalize.identity import find_run_id, make_addressable
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
        find_project: Returns the project of a run that is known, None of one that is not.
    """

    find_sender: Callable[[str | None], Principal | None]
    find_project: Callable[[str], str | None] = lambda _: None

    def check(self, sender: Principal, signal: Signal, request: Message) -> None:
        """Let a request pass whose every resource says that it belongs to the sender's projects.

        Spans may name a run of their own beside their resource's; it is looked at too.

        Raises:
            ForbiddenError: Something belongs elsewhere, or does not say where.
        """
        if sender.projects is None:
            return
        for group in getattr(request, _RESOURCES[signal]):
            values = read_attributes(group.resource.attributes)
            if _find_project(values) is None:
                raise ForbiddenError(
                    f"{sender.name} may send to single projects, and the data names none.",
                    hint=f"Set the resource attribute {PROJECT}.",
                )
            self._check_claims(sender, values)
            if signal == "traces":
                for span in _list_spans(group):
                    self._check_claims(sender, read_attributes(span.attributes))

    def _check_claims(self, sender: Principal, values: Values) -> None:
        run_id = find_run_id(values)
        owner = self.find_project(make_addressable(run_id)) if run_id is not None else None
        for project in (_find_project(values), owner):
            if project is not None and not sender.sees(project):
                raise ForbiddenError(f"{sender.name} may not send to project {project!r}.")


def _find_project(values: Values) -> str | None:
    return get_text(values, PROJECT) or get_text(values, LEGACY_PROJECT)


def _list_spans(group: ResourceSpans) -> Iterable[Span]:
    return (span for scope in group.scope_spans for span in scope.spans)
