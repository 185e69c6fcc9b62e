"""Bounded decompression: a small body must not become a large one in memory."""

import zlib

from longpole_server.errors import BadRequestError, TooLargeError

# Either header, gzip's or zlib's, is taken.
_WINDOW_BITS = 32 + zlib.MAX_WBITS
# First bytes of gzip and of zlib. Neither begins an export request in protobuf, whose only field
# is number 1.
_FIRST_BYTES = (b"\x1f", b"\x78")


def is_compressed(data: bytes) -> bool:
    """Tell a compressed export request from one in plain protobuf."""
    return data.startswith(_FIRST_BYTES)


def check_size(num_bytes: int, max_bytes: int) -> None:
    """Refuse a body over the limit.

    Raises:
        TooLargeError: It is.
    """
    if num_bytes > max_bytes:
        raise TooLargeError(
            f"The request is larger than {max_bytes} bytes after decompression.",
            hint="Send smaller batches.",
        )


def decompress(data: bytes, max_bytes: int) -> bytes:
    """Decompress a body in gzip (one or more members) or zlib, never holding more than `max_bytes`.

    Raises:
        TooLargeError: It is larger than that.
        BadRequestError: It is neither, damaged or cut short.
    """
    pieces: list[bytes] = []
    num_bytes = 0
    rest = data
    while rest or not pieces:
        decompressor = zlib.decompressobj(_WINDOW_BITS)
        try:
            piece = decompressor.decompress(rest, max_bytes - num_bytes + 1)
        except zlib.error as error:
            raise BadRequestError(f"The body is not validly compressed: {error}.") from error
        pieces.append(piece)
        num_bytes += len(piece)
        check_size(num_bytes, max_bytes)
        if not decompressor.eof:
            raise BadRequestError("The compressed body is cut short.")
        rest = decompressor.unused_data
    return b"".join(pieces)
