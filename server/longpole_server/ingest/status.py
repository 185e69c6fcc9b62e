"""Errors as OTLP wants them: a `google.rpc.Status` with the matching HTTP status or gRPC code."""

import math
from dataclasses import dataclass

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from longpole_server.errors import (
    BadRequestError,
    BusyError,
    ForbiddenError,
    ServerError,
    TooLargeError,
)

# How long a sender waits after an error that does not say.
_STORE_RETRY_AFTER_S = 5.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error on its way to the sender.

    Attributes:
        retry_after_s: Seconds after which the same request makes sense again, None if never.
    """

    http_status: int
    code: grpc.StatusCode
    message: str
    retry_after_s: float | None = None

    @property
    def retry_after_header(self) -> str | None:
        """The value of `Retry-After`: whole seconds, at least one."""
        if self.retry_after_s is None:
            return None
        return str(max(1, math.ceil(self.retry_after_s)))

    def to_status(self) -> Status:
        """Return the body that OTLP clients read, with the delay among its details."""
        # The numeric code is the first member of grpcio's pair.
        status = Status(code=self.code.value[0], message=self.message)
        if self.retry_after_s is not None:
            delay = Duration()
            delay.FromNanoseconds(int(self.retry_after_s * 1e9))
            status.details.add().Pack(RetryInfo(retry_delay=delay))
        return status


UNAUTHENTICATED = Refusal(
    401,
    grpc.StatusCode.UNAUTHENTICATED,
    "The request carries no valid token. Send it as `Authorization: Bearer <token>`.",
)


def refuse(error: ServerError) -> Refusal:
    """Return what an error of the server means to a sender."""
    message = f"{error.message} {error.hint}".strip()
    if isinstance(error, TooLargeError):
        return Refusal(413, grpc.StatusCode.RESOURCE_EXHAUSTED, message)
    if isinstance(error, ForbiddenError):
        return Refusal(403, grpc.StatusCode.PERMISSION_DENIED, message)
    if isinstance(error, BadRequestError):
        return Refusal(400, grpc.StatusCode.INVALID_ARGUMENT, message)
    if isinstance(error, BusyError):
        return Refusal(429, grpc.StatusCode.UNAVAILABLE, message, error.retry_after_s)
    return Refusal(503, grpc.StatusCode.UNAVAILABLE, message, _STORE_RETRY_AFTER_S)
