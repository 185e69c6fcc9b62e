import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo

from longpole_server.errors import (
    BadRequestError,
    BusyError,
    ServerError,
    StoreError,
    TooLargeError,
)
from longpole_server.ingest.status import refuse


@pytest.mark.parametrize(
    ("error", "http_status", "code", "retry_after"),
    [
        (BadRequestError("x"), 400, grpc.StatusCode.INVALID_ARGUMENT, None),
        (TooLargeError("x"), 413, grpc.StatusCode.RESOURCE_EXHAUSTED, None),
        (BusyError("x", 0.2), 429, grpc.StatusCode.UNAVAILABLE, "1"),
        (BusyError("x", 2.5), 429, grpc.StatusCode.UNAVAILABLE, "3"),
        (StoreError("x"), 503, grpc.StatusCode.UNAVAILABLE, "5"),
    ],
)
def test_what_an_error_means_to_a_sender(
    error: ServerError, http_status: int, code: grpc.StatusCode, retry_after: str | None
) -> None:
    refusal = refuse(error)

    assert (refusal.http_status, refusal.code) == (http_status, code)
    assert refusal.retry_after_header == retry_after


def test_the_status_says_when_to_come_back() -> None:
    status = refuse(BusyError("full", 2.5)).to_status()
    retry = RetryInfo()

    assert status.details[0].Unpack(retry)
    assert (status.code, retry.retry_delay.ToMilliseconds()) == (14, 2500)
    assert status.message == "full Retry after 2.5 s."
    assert not refuse(BadRequestError("no")).to_status().details
