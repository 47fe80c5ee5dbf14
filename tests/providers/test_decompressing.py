"""Answers that were packed though nobody asked for it."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.providers._http.reading import decompressor


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
def test_what_is_not_packed_needs_no_unpacking(encoding: str) -> None:
    assert decompressor(encoding) is None


@given(st.binary(), st.integers(1, 20))
@pytest.mark.parametrize("encoding", ["gzip", "X-GZIP", "deflate"])
def test_packed_bytes_come_out_as_they_were_in_any_pieces(encoding: str, data: bytes, size: int) -> None:
    packed = zlib.compress(data) if encoding == "deflate" else gzip.compress(data)
    unpack = decompressor(encoding)
    assert unpack is not None
    assert b"".join(unpack(packed[at : at + size]) for at in range(0, len(packed), size)) == data


def test_bytes_that_are_not_packed_so_are_an_error() -> None:
    unpack = decompressor("gzip")
    assert unpack is not None
    with pytest.raises(ValueError, match="incorrect header check"):
        unpack(b"data: plain\n\n")


def test_another_encoding_is_an_error_that_names_it() -> None:
    unpack = decompressor("br")
    assert unpack is not None
    with pytest.raises(ValueError, match="packed as 'br', which was not asked for"):
        unpack(b"x")
