"""Parquet files of strangers, read in batches whose bytes are known before they are decoded.

A file of 20 kB can stand for gigabytes: a long text in a dictionary that every row names, a page of zeros, a list of
a billion equal numbers. The headers of the pages tell how much a page unpacks to and how many values it has; with
the longest value of the dictionary they bound what a row can take. Batches have as many rows as fit, so that a long
file of short rows is read whole. What no number of rows can bound is refused, with the column and the limit.
"""

import base64
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from steelyard_common.bounded_schema import schema_fault
from steelyard_common.thrift import MOST_ITEMS, read_struct

FOOTER_BYTES = 16 << 20
"""Most bytes of a footer, which is read before anything else is known."""
DEPTH = 64
"""Most levels of lists and objects in a column, as in Arrow's own files."""
PAGE_BYTES, PAGE_RATIO = 64 << 20, 16
"""A page unpacks to no more than one of these: bytes, times its size in the file."""
LISTS_BYTES, LISTS_RATIO = 512 << 20, 64
"""The same for the lists of a column in one row group: a single row may hold all of them."""
ROW_BYTES = 1 << 30
"""The same for one row, with `LISTS_RATIO` of its row group."""
BATCH_BYTES = 64 << 20
"""A batch has fewer rows than are asked for where more of them could take more."""
TABLE_BYTES = 4 << 30
"""A table that is read whole takes no more, or no more than `LISTS_RATIO` times its file."""
_TABLE_ROWS = 65_536
_SHORT_FOOTER = 64 << 10
_SMALL_GROUP = 1 << 20
_HEADER_BYTES = (4 << 10, 64 << 10, 1 << 20, 16 << 20)
_DICTIONARY, _DELTA_TEXTS = (2, 8), 7  # encodings
_DATA, _DICTIONARY_PAGE, _DATA_V2 = 0, 2, 3  # kinds of pages
_WIDTHS = {"BOOLEAN": 8, "INT32": 8, "INT64": 8, "INT96": 16, "FLOAT": 8, "DOUBLE": 8}
_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 5: "lz4_raw", 6: "zstd", 7: "lz4_raw"}  # 0: none
_LENGTH = struct.Struct("<I")
_ARROW_SCHEMA, _BASE64 = b"ARROW:schema", re.compile(rb"[A-Za-z0-9+/]*")


class Expands(pa.ArrowInvalid):
    """A file that stands for more than its reader takes: Arrow's own error, so that it is told as any bad file is."""


@dataclass(frozen=True)
class _Page:
    kind: int
    packed: int
    unpacked: int
    values: int
    encoding: int
    start: int


@dataclass(frozen=True)
class _Chunk:
    """A column's part of a row group, as the footer describes it."""

    codec: int
    values: int
    packed: int
    start: int


def open_parquet(source: Any) -> pq.ParquetFile:
    """Open a path or a reader; only its footer is read. Raises Expands and what pyarrow raises."""
    _check_footer(source)
    # Without pre-buffering a row group is read in pieces: memory does not grow with its size.
    return pq.ParquetFile(
        source,
        pre_buffer=False,
        buffer_size=1 << 20,
        thrift_string_size_limit=FOOTER_BYTES,
        thrift_container_size_limit=MOST_ITEMS,
    )


def batches(source: Any, rows: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a path or a reader, at most `rows` of them at once. Raises as `open_parquet` does."""
    file = open_parquet(source)
    for group, chunks in enumerate(_chunks(source, file)):
        row = _row_bytes(source, file, group, chunks, rows, columns)
        fitting = max(1, min(rows, BATCH_BYTES // row))
        # To hand a small row group to Arrow's threads takes six times as long as to decode it here.
        large = sum(chunk.packed for chunk in chunks) > _SMALL_GROUP
        yield from file.iter_batches(
            fitting,
            row_groups=[group],
            columns=None if columns is None else list(columns),
            use_threads=large,
        )


def read_table(source: Any, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a whole file, or some of its columns. Raises as `batches` does, and Expands for a table too large."""
    with open_parquet(source) as file:
        schema = file.schema_arrow
    allowed = max(TABLE_BYTES, LISTS_RATIO * _size(source))
    kept, size = [], 0
    for batch in batches(source, _TABLE_ROWS, columns):
        size += batch.nbytes
        if size > allowed:
            raise Expands(f"its rows take more than {allowed} bytes")
        kept.append(batch)
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns]).with_metadata(schema.metadata or {})
    return pa.Table.from_batches([batch.select(schema.names) for batch in kept], schema)


def check(source: Any, file: pq.ParquetFile, rows: int) -> None:
    """Raise Expands where `batches` would, without decoding anything."""
    for group, chunks in enumerate(_chunks(source, file)):
        _row_bytes(source, file, group, chunks, rows, None)


def _chunks(source: Any, file: pq.ParquetFile) -> Iterator[list[_Chunk]]:
    """Yield the columns of each row group. Not by pyarrow: where a bit of their description is wrong, it aborts."""
    try:
        footer = _footer_content(_footer(source))
        groups = [[_chunk(column[3]) for column in group[1]] for group in footer[4]]
    except (IndexError, KeyError, TypeError) as error:
        raise Expands("its footer cannot be read") from error
    columns = len(file.schema)
    if len(groups) != file.metadata.num_row_groups or any(len(group) != columns for group in groups):
        raise Expands(f"its footer does not describe {columns} columns of each row group")
    yield from groups


def _chunk(about: dict[int, Any]) -> _Chunk:
    start = min(about[9], about.get(11) or about[9])
    chunk = _Chunk(about[4], about[5], about[7], start)
    if min(chunk.values, chunk.packed, chunk.start) < 0:
        raise IndexError
    return chunk


def _footer(source: Any) -> bytes:
    """Return the footer; nothing where there is none, as pyarrow says. Raises Expands for one that is too long."""
    end = _size(source)
    tail = _read(source, max(0, end - 8), 8)
    if len(tail) < 8 or tail[4:] != b"PAR1":
        return b""
    length = _LENGTH.unpack(tail[:4])[0]
    if length > FOOTER_BYTES:
        raise Expands(f"its footer has {length} bytes, of which {FOOTER_BYTES} are allowed")
    return _read(source, max(0, end - 8 - length), length)


def _check_footer(source: Any) -> None:
    """Raise Expands for a footer that is too long, too deep, or whose schema of Arrow's own stands for too much."""
    if (footer := _footer(source)) and (fault := _footer_fault(footer)):
        raise Expands(fault)


def _footer_content(footer: bytes) -> dict[int, Any]:
    """Return the fields of a footer; a short one, which most files have, is parsed once for each look at its file."""
    return _short_footer(footer) if len(footer) <= _SHORT_FOOTER else read_struct(footer, 0, 0)[0]


@lru_cache(maxsize=4)  # nothing changes the fields, and of long footers they would take a gigabyte
def _short_footer(footer: bytes) -> dict[int, Any]:
    return read_struct(footer, 0, 0)[0]


@lru_cache(maxsize=4)  # a file is often opened again at once
def _footer_fault(footer: bytes) -> str:
    try:
        content = _footer_content(footer)
        if fault := _depth_fault(content.get(2, [])):
            return fault
        schemas = [pair[2] for pair in content.get(5, []) if pair.get(1) == _ARROW_SCHEMA and 2 in pair]
        faults = [fault for schema in schemas if (fault := schema_fault(_decode(schema)))]
    except (IndexError, AttributeError, TypeError):
        return "its footer cannot be read"
    return f"ARROW:schema of its footer: {faults[0]}" if faults else ""


def _depth_fault(elements: Sequence[dict[int, Any]]) -> str:
    """Return what is wrong with the tree of columns, which pyarrow follows as deep as it goes."""
    groups: list[list[int]] = []  # for each level: columns to come, and bytes of the path
    paths = 0
    for element in elements:
        while groups and not groups[-1][0]:
            groups.pop()
        path = len(element.get(4, b"")) + 1
        if groups:
            groups[-1][0] -= 1
            path += groups[-1][1]
        if (children := element.get(5, 0)) > 0:
            groups.append([children, path])
        else:
            paths += path
        if len(groups) > DEPTH:
            return f"its columns are nested deeper than {DEPTH} levels"
        if paths > FOOTER_BYTES:
            return (
                f"the names of its columns take more than {FOOTER_BYTES} bytes with those of the levels above"
            )
    return ""


def _decode(text: bytes) -> bytes:
    """Return what Arrow reads of a base64 text: the part before the first other character."""
    digits = _BASE64.match(text)[0]  # type: ignore[index]  # an empty text matches as well
    return base64.b64decode(digits[: len(digits) // 4 * 4] + digits[len(digits) // 4 * 4 :].ljust(4, b"A"))


def _row_bytes(
    source: Any,
    file: pq.ParquetFile,
    group: int,
    chunks: Sequence[_Chunk],
    rows: int,
    columns: Sequence[str] | None,
) -> int:
    """Return the most bytes that a row of the group takes, as far as pages can tell. Raises Expands."""
    total, weight = 0, 0
    with _open_source(source) as reader:
        for number, chunk in enumerate(chunks):
            leaf = file.schema.column(number)
            path = leaf.path
            if columns is None or any(path == name or path.startswith(f"{name}.") for name in columns):
                total += _value_bytes(source, reader, file, group, leaf, chunk, rows)
                weight += chunk.packed
    if total > max(ROW_BYTES, LISTS_RATIO * weight):
        raise Expands(f"a row of its row group {group} may take {total} bytes; {ROW_BYTES} are allowed")
    return max(1, total)


def _value_bytes(
    source: Any, reader: Any, file: pq.ParquetFile, group: int, leaf: Any, chunk: _Chunk, rows: int
) -> int:
    """Return the most bytes of a column's part of a row; of lists, where nothing can be too large, of a mean row."""
    width = leaf.length if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(leaf.physical_type)
    widest, whole, values, longest = width or 8, 0, 0, 0
    for page in _pages(reader, chunk, leaf.path):
        if page.unpacked > max(PAGE_BYTES, PAGE_RATIO * page.packed):
            raise Expands(
                f"column {leaf.path}: a page of {page.packed} bytes unpacks to {page.unpacked}; "
                f"{PAGE_BYTES} are allowed, or {PAGE_RATIO} times as many as there are"
            )
        if page.kind == _DICTIONARY_PAGE:
            few = page.unpacked * rows <= BATCH_BYTES and not leaf.max_repetition_level
            longest = page.unpacked if few else _longest(reader, leaf, chunk, page)
            continue
        values += page.values
        if width is None:
            widest = max(widest, _text_bytes(page, longest))
            whole += _texts_bytes(page, longest)
    if not leaf.max_repetition_level:
        return int(widest)
    # A row may hold all values of the row group, or as good as none.
    allowed = max(LISTS_BYTES, LISTS_RATIO * chunk.packed)
    if (lists := values * (width or 8)) <= allowed and lists + whole > allowed and longest:
        return _measure_row(source, group, leaf.path, allowed)
    if lists + whole > allowed:
        raise _long_lists(leaf.path, lists + whole)
    return int((lists + whole) // max(1, file.metadata.row_group(group).num_rows)) + 1


def _long_lists(column: str, size: int) -> Expands:
    return Expands(
        f"column {column}: the lists of a row group may take {size} bytes; {LISTS_BYTES} are allowed, "
        f"or {LISTS_RATIO} times what they take in the file: write smaller row groups"
    )


def _text_bytes(page: _Page, longest: int) -> int:
    """Return the bytes that a text of the page takes: the longest, or of texts that are written out the mean."""
    if page.encoding in _DICTIONARY:
        return longest
    if page.encoding == _DELTA_TEXTS:
        return page.unpacked  # each text may be the one before and a little more
    return page.unpacked // max(1, page.values)


def _texts_bytes(page: _Page, longest: int) -> int:
    """Return the most bytes that all texts of the page take."""
    many = page.encoding in _DICTIONARY or page.encoding == _DELTA_TEXTS
    return page.values * _text_bytes(page, longest) if many else page.unpacked


def _measure_row(source: Any, group: int, column: str, allowed: int) -> int:
    """Return the most bytes that texts in the lists of one row take: those of a dictionary are told without them."""
    largest = 0
    for rows in (1024, 32, 1):
        file = pq.ParquetFile(source, pre_buffer=False, buffer_size=1 << 20, read_dictionary=[column])
        pieces = file.iter_batches(rows, row_groups=[group], columns=[column])
        largest = max((_count_bytes(piece.column(0)) for piece in pieces), default=0)
        if largest <= BATCH_BYTES:
            return BATCH_BYTES // rows
    if largest > allowed:
        raise _long_lists(column, largest)
    return largest


def _count_bytes(column: Any) -> int:
    """Return the bytes of the texts in a column, as if each were written out."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return pc.sum(pc.binary_length(column.dictionary).cast(pa.int64()).take(column.indices)).as_py() or 0
    if pa.types.is_struct(kind):
        return sum(map(_count_bytes, column.flatten()))
    if pa.types.is_map(kind):
        return _count_bytes(column.keys) + _count_bytes(column.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _count_bytes(column.flatten())
    return int(column.nbytes)


def _longest(source: Any, leaf: Any, chunk: _Chunk, page: _Page) -> int:
    """Return the length of the longest text in a dictionary; where that cannot be read, the dictionary's own."""
    if leaf.physical_type != "BYTE_ARRAY":
        return page.unpacked
    content = _read(source, page.start, page.packed)
    if chunk.codec:
        if chunk.codec not in _CODECS:
            return page.unpacked
        codec = pa.Codec(_CODECS[chunk.codec])  # type: ignore[arg-type]  # one of its names
        try:
            content = codec.decompress(content, decompressed_size=page.unpacked, asbytes=True)
        except (pa.ArrowException, OSError):
            return page.unpacked
    longest, place, end = 0, 0, len(content) - 4
    while place <= end:
        length = _LENGTH.unpack_from(content, place)[0]
        longest = max(longest, length)
        place += 4 + length
    return min(longest, page.unpacked)


def _pages(source: Any, chunk: _Chunk, column: str) -> Iterator[_Page]:
    place, end, values = chunk.start, chunk.start + chunk.packed, 0
    while place < end and values < chunk.values:  # as pyarrow does: of no values there may be no page
        page = _page_at(source, place, column)
        yield page
        values += 0 if page.kind == _DICTIONARY_PAGE else page.values
        place = page.start + page.packed


def _page_at(source: Any, place: int, column: str) -> _Page:
    for size in _HEADER_BYTES:
        content = _read(source, place, size)
        try:
            header, used = read_struct(content, 0, 0)
        except IndexError:
            if len(content) < size:
                break
            continue
        kind, packed, unpacked = (header.get(field, 0) for field in (1, 3, 2))
        about = header.get({_DATA: 5, _DICTIONARY_PAGE: 7, _DATA_V2: 8}.get(kind, 0), {})
        if not isinstance(about, dict):
            break
        values, encoding = about.get(1, 0), about.get(4 if kind == _DATA_V2 else 2, 0)
        numbers = (kind, packed, unpacked, values, encoding)
        if all(isinstance(number, int) and number >= 0 for number in numbers):
            return _Page(*numbers, place + used)
        break
    raise Expands(f"column {column}: the header of a page cannot be read")


def _size(source: Any) -> int:
    if isinstance(source, Path | str):
        return Path(source).stat().st_size
    source.seek(0, 2)
    return int(source.tell())


@contextmanager
def _open_source(source: Any) -> Iterator[Any]:
    """Give a reader of the source, which for a path is opened once for many reads of headers."""
    if not isinstance(source, Path | str):
        yield source
        return
    with open(source, "rb", buffering=0) as file:
        yield file


def _read(source: Any, place: int, size: int) -> bytes:
    if isinstance(source, Path | str):
        with open(source, "rb") as file:
            file.seek(place)
            return file.read(size)
    source.seek(place)
    return bytes(source.read(size))
