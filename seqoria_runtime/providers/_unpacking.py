"""Unpacks an answer that a server packed though it was asked not to; knows nothing of HTTP."""

import zlib
from collections.abc import Callable
from typing import TypeAlias

from seqoria_runtime.models.errors import ProviderProtocolError

Unpack: TypeAlias = Callable[[bytes], bytes]

_WITH_GZIP_OR_ZLIB_HEADER = zlib.MAX_WBITS | 32


def unpacker(encoding: str) -> Unpack | None:
    """Give what unpacks the pieces of one answer, in order; `None` where nothing is packed.

    It raises `ProviderProtocolError` for bytes that are not packed so. Raises the same for an
    encoding other than gzip and deflate.
    """
    kind = encoding.strip().lower()
    if kind in {"", "identity"}:
        return None
    if kind not in {"gzip", "x-gzip", "deflate"}:
        raise ProviderProtocolError(f"malformed response: packed as {kind!r}, which was not asked for")
    state = zlib.decompressobj(_WITH_GZIP_OR_ZLIB_HEADER)

    def unpack(data: bytes) -> bytes:
        try:
            return state.decompress(data)
        except zlib.error as error:
            raise ProviderProtocolError(f"malformed response: {error}") from error

    return unpack
