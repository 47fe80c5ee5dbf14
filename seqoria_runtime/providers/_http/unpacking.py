"""Unpacks an answer that a server packed though it was asked not to; knows nothing of HTTP."""

import zlib
from collections.abc import Callable
from typing import TypeAlias

Unpack: TypeAlias = Callable[[bytes], bytes]

_WITH_GZIP_OR_ZLIB_HEADER = zlib.MAX_WBITS | 32


def unpacker(encoding: str) -> Unpack | None:
    """Give what unpacks the pieces of one answer, in their order; `None` where nothing is packed.

    It raises `ValueError` for bytes that are not packed so, and for all bytes where the encoding is
    neither gzip nor deflate.
    """
    kind = encoding.strip().lower()
    if kind in {"", "identity"}:
        return None
    state = zlib.decompressobj(_WITH_GZIP_OR_ZLIB_HEADER)

    def unpack(data: bytes) -> bytes:
        if kind not in {"gzip", "x-gzip", "deflate"}:
            raise ValueError(f"packed as {kind!r}, which was not asked for")
        try:
            return state.decompress(data)
        except zlib.error as error:
            raise ValueError(str(error)) from error

    return unpack
