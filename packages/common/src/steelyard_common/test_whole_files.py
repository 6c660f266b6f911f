"""Files that are read as a whole: what fits is read, what stands for more is refused before it is made."""

import io
import time
from pathlib import Path

import orjson
import pytest

from steelyard_common.whole_files import TooLarge, check_values, parse_json, read_whole

MANY = 100_000


def test_what_fits_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert read_whole(path, 3) == read_whole(io.BytesIO(b"abc"), 3) == b"abc"
    with pytest.raises(TooLarge, match=f"^{path}: has more than 2 bytes, which are allowed$"):
        read_whole(path, 2)


@pytest.mark.parametrize(
    "content",
    [b"[]", b'{"a":[1,2]}', b'["' + b"[,{" * MANY + b'"]', b'["' + b'\\",' * MANY + b'"]', b'"\\\\"'],
)
def test_marks_within_texts_are_no_values(content: bytes) -> None:
    assert parse_json(content, 4) == orjson.loads(content)


@pytest.mark.parametrize(
    "content",
    [
        b"[" + b"[]," * MANY + b"1]",
        b"[" + b"{}," * MANY + b"1]",
        b"[" + b'"a",' * MANY + b"1]",
        b"[" + b'"\\\\",' * MANY + b"1]",
        b"[" * MANY,
        b'"[,"' * MANY,
    ],
    ids=[
        "lists",
        "objects",
        "texts",
        "texts that end in a backslash",
        "levels",
        "texts without anything between",
    ],
)
def test_values_are_counted_before_they_are_made(content: bytes) -> None:
    with pytest.raises(TooLarge, match="has more than 1000 values, which are allowed"):
        parse_json(content, 1000)
    if b'"' not in content:
        with pytest.raises(TooLarge, match="has more than 1000 lists and objects, which are allowed"):
            parse_json(content, parts=1000)


def test_counting_takes_no_longer_than_the_text_is_long() -> None:
    began = time.process_time()
    check_values(b'"\\' * (1 << 20) + b"," * 1001, 1000)  # a text without an end
    assert time.process_time() - began < 2
