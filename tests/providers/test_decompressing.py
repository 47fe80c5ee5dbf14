"""Answers that a server compressed although it was asked not to."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqoria_runtime.providers._http.reading import decompressor


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
def test_an_uncompressed_answer_needs_no_decompressor(encoding: str) -> None:
    assert decompressor(encoding) is None


@given(st.binary(), st.integers(1, 20))
@pytest.mark.parametrize("encoding", ["gzip", "X-GZIP", "deflate"])
def test_compressed_bytes_come_out_as_they_were_in_any_pieces(encoding: str, data: bytes, size: int) -> None:
    compressed = zlib.compress(data) if encoding == "deflate" else gzip.compress(data)
    decompress = decompressor(encoding)
    assert decompress is not None
    assert b"".join(decompress(compressed[at : at + size]) for at in range(0, len(compressed), size)) == data


def test_bytes_that_are_not_compressed_are_an_error() -> None:
    decompress = decompressor("gzip")
    assert decompress is not None
    with pytest.raises(ValueError, match="incorrect header check"):
        decompress(b"data: plain\n\n")


def test_another_encoding_is_an_error_that_names_it() -> None:
    decompress = decompressor("br")
    assert decompress is not None
    with pytest.raises(ValueError, match="compressed as 'br', which was not requested"):
        decompress(b"x")
