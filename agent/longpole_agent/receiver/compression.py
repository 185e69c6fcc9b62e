"""Checks a compressed body without keeping what comes out of it."""

import zlib

_STEP_BYTES = 256 * 1024


class DamagedBodyError(ValueError):
    """The body is not what its `Content-Encoding` says."""


class BodyTooLargeError(ValueError):
    """The body is larger than the limit once decompressed."""


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
