"""Compressed content: what fits is the same, content that does not fit is refused before it is there."""

import gzip
import tracemalloc
import zlib

import pytest

from steelyard.services.backup.compressed import TooLargeUnpacked, unpack_gzip


def test_what_fits_is_what_was_packed() -> None:
    for content in (b"", b"a", b"abc" * 100_000):
        assert unpack_gzip(gzip.compress(content), len(content)) == content
    assert unpack_gzip(gzip.compress(b"a") + gzip.compress(b"b"), 2) == b"ab"


@pytest.mark.parametrize(
    "data",
    [gzip.compress(bytes(200 << 20), 9), gzip.compress(bytes(1 << 10), 9) * 2000],
    ids=["one large member", "many members"],
)
def test_what_does_not_fit_is_refused(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeUnpacked, match="stands for more than 1048576 bytes"):
            unpack_gzip(data, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [b"no gzip", gzip.compress(b"a" * 1000)[:-5], gzip.compress(b"a")[:4]],
    ids=["no gzip", "cut at its end", "cut at its beginning"],
)
def test_damaged_content_is_an_error_of_its_own(data: bytes) -> None:
    with pytest.raises((EOFError, zlib.error)):
        unpack_gzip(data, 1 << 20)
