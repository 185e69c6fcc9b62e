"""Checks a compressed body without keeping what comes out of it."""

import zlib

_STEP_BYTES = 256 * 1024
_GZIP_START = b"\x1f\x8b"
_ZLIB_START = 0x78


class DamagedBodyError(ValueError):
    """The body is not what its `Content-Encoding` says."""


class BodyTooLargeError(ValueError):
    """The body is larger than the limit once decompressed."""


def is_gzip(body: bytes) -> bool:
    """Tell gzip from an export request in protobuf, whose only field is number 1."""
    return body.startswith(_GZIP_START)


def is_zlib(body: bytes) -> bool:
    """Tell zlib, gRPC's `deflate`, from an export request in protobuf."""
    return len(body) > 1 and body[0] == _ZLIB_START and not int.from_bytes(body[:2], "big") % 31


def uncompress(body: bytes, max_bytes: int) -> bytes:
    """Return what zlib compressed, which OTLP/HTTP does not carry.

    Raises:
        DamagedBodyError: It is none, or cut off.
        BodyTooLargeError: More than `max_bytes` come out.
    """
    decompressor = zlib.decompressobj()
    try:
        plain = decompressor.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise DamagedBodyError(f"not compressed: {error}") from error
    if len(plain) > max_bytes:
        raise BodyTooLargeError(f"more than {max_bytes} bytes when decompressed")
    if not decompressor.eof:
        raise DamagedBodyError("the compressed stream is cut off")
    return plain


def check_gzip(body: bytes, max_bytes: int) -> None:
    """Decompress in steps and forget, so that a bomb costs neither memory nor much time.

    Raises:
        DamagedBodyError: No gzip, or cut off.
        BodyTooLargeError: More than `max_bytes` come out.
    """
    left_bytes = max_bytes
    while body:
        decompressor = zlib.decompressobj(wbits=31)
        while not decompressor.eof:
            try:
                step = decompressor.decompress(body, _STEP_BYTES)
            except zlib.error as error:
                raise DamagedBodyError(f"not gzip: {error}") from error
            left_bytes -= len(step)
            if left_bytes < 0:
                raise BodyTooLargeError(f"more than {max_bytes} bytes when decompressed")
            body = decompressor.unconsumed_tail
            if not step and not body and not decompressor.eof:
                raise DamagedBodyError("the gzip stream is cut off")
        # gzip allows several members one after the other.
        body = decompressor.unused_data
