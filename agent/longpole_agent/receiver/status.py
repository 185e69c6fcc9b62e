"""Error bodies as OTLP wants them: `google.rpc.Status` in the encoding of the request."""

import json

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
