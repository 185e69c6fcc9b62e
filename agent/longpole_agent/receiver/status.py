"""Error bodies as OTLP wants them: `google.rpc.Status` in the encoding of the request."""

import json

from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from longpole_agent.batch import JSON

# Codes of google.rpc.Code.
INVALID_ARGUMENT = 3
RESOURCE_EXHAUSTED = 8
UNAVAILABLE = 14


def encode_status(code: int, message: str, media_type: str) -> bytes:
    """Return the body of an error answer."""
    if media_type == JSON:
        return json.dumps({"code": code, "message": message}).encode()
    return Status(code=code, message=message).SerializeToString()


def encode_retry(code: int, message: str, retry_after_s: float) -> bytes:
    """Return a status that says when the same request makes sense again."""
    status = Status(code=code, message=message)
    delay = Duration()
    delay.FromNanoseconds(int(retry_after_s * 1e9))
    status.details.add().Pack(RetryInfo(retry_delay=delay))
    return status.SerializeToString()
