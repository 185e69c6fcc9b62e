"""What lies in the spool: one OTLP request, unparsed, with what its delivery needs.

A record is a length, a small JSON header, and the body as it was received.
"""

import json
import struct
from dataclasses import dataclass
from typing import Any, Literal, cast

Signal = Literal["traces", "metrics", "logs"]
SIGNALS: tuple[Signal, ...] = ("traces", "metrics", "logs")

PROTOBUF = "application/x-protobuf"
JSON = "application/json"

_HEADER_LENGTH = struct.Struct("<I")


class BatchDecodeError(ValueError):
    """A spooled record that this version of the agent does not understand."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One OTLP request.

    Attributes:
        signal: Which of the three OTLP paths it goes to.
        body: The request as sent, still compressed when `content_encoding` says so.
        content_type: Header of the request as sent.
        content_encoding: `gzip`, or empty.
        origin: `<agent>/<boot>` of the agent that made it durable. With the spool's sequence it
            is the batch id, which therefore survives restarts of the agent.
    """

    signal: Signal
    body: bytes
    content_type: str
    content_encoding: str
    origin: str

    def make_id(self, sequence: int) -> str:
        """Return the batch id, given the sequence under which the spool holds this batch."""
        return f"{self.origin}/{sequence}"

    def encode(self) -> bytes:
        """Return the spool record."""
        header = json.dumps(
            {
                "signal": self.signal,
                "type": self.content_type,
                "encoding": self.content_encoding,
                "origin": self.origin,
            }
        ).encode()
        return b"".join((_HEADER_LENGTH.pack(len(header)), header, self.body))


def decode_batch(record: bytes) -> Batch:
    """Return the batch in a spool record.

    Raises:
        BatchDecodeError: The record was written by something else.
    """
    try:
        (length,) = _HEADER_LENGTH.unpack_from(record)
        end = _HEADER_LENGTH.size + length
        header = cast("dict[str, Any]", json.loads(record[_HEADER_LENGTH.size : end]))
        signal = header["signal"]
        if signal not in SIGNALS:
            raise ValueError(signal)
        texts = [str(header[key]) for key in ("type", "encoding", "origin")]
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise BatchDecodeError("not a batch of this version of the agent") from error
    return Batch(signal, record[end:], *texts)
