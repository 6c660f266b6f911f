"""Ranges of bytes: those of readers agree with Python's slices, and a chunk's are exact."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.api.registry.errors import RangeInvalid, UploadInvalid
from steelyard.api.registry.ranges import chunk_range, read_range

SIZES = st.integers(0, 50)
PLACES = st.integers(0, 60)


@given(SIZES, PLACES, PLACES)
def test_a_range_has_the_bytes_of_the_slice(size: int, first: int, last: int) -> None:
    content, header = list(range(size)), f"bytes={first}-{last}"
    if last < first:
        assert read_range(header, size) is None
    elif first >= size:
        with pytest.raises(RangeInvalid) as raised:
            read_range(header, size)
        assert raised.value.headers == {"Content-Range": f"bytes */{size}"}
    else:
        assert list(read_range(header, size) or ()) == content[first : last + 1]


@given(SIZES, PLACES)
def test_an_open_range_goes_to_the_end_and_a_suffix_begins_before_it(size: int, number: int) -> None:
    content = list(range(size))
    for header, expected in ((f"bytes={number}-", content[number:]), (f"bytes=-{number}", content[-number:])):
        if not expected or header == "bytes=-0":
            with pytest.raises(RangeInvalid):
                read_range(header, size)
        else:
            assert list(read_range(header, size) or ()) == expected


@pytest.mark.parametrize("header", [None, "", "bytes", "bytes=-", "bytes=1-2,4-5", "lines=1-2", "bytes=a-b"])
def test_what_is_no_single_range_of_bytes_is_ignored(header: str | None) -> None:
    assert read_range(header, 10) is None


@given(PLACES, PLACES)
def test_a_chunk_announces_its_bytes(first: int, last: int) -> None:
    if last < first:
        with pytest.raises(UploadInvalid):
            chunk_range(f"{first}-{last}")
    else:
        assert chunk_range(f"{first}-{last}") == range(first, last + 1)
        assert chunk_range(f"bytes {first}-{last}/*") == range(first, last + 1)


@given(st.text(alphabet="0123456789-x /"))
def test_any_text_as_a_chunk_range_is_refused_or_read(text: str) -> None:
    try:
        announced = chunk_range(text)
    except UploadInvalid:
        return
    assert announced is not None
    assert len(announced) > 0


@pytest.mark.parametrize(
    "header",
    [
        "bytes=" + ",".join(f"{n}-{n + 1}" for n in range(10_000)),
        "bytes=" + "0-," * 10_000,
        "bytes=-" + "9" * 10_000,
        "bytes=" + "0" * 10_000 + "-1",
        "bytes=--5",
        "bytes=5-3",
        "lines=0-1",
    ],
    ids=[
        "many",
        "many that overlap",
        "many digits",
        "many zeros",
        "a negative number",
        "from behind",
        "lines",
    ],
)
def test_a_header_that_is_no_single_range_asks_for_all_once(header: str) -> None:
    assert read_range(header, 100) is None
