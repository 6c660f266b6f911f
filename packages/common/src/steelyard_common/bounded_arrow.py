"""Arrow files of strangers, read in pieces whose bytes are known before they are made.

What compressed buffers unpack to is added up before one of them is unpacked. Without any compression, too, a few bytes
can stand for gigabytes: one long text in a dictionary that every row names, views of one text, lists that overlap, runs
of equal values, nulls, which take no bytes at all. Values are counted as the messages say how many there are, and rows
are measured as if they were written out; pieces have as many rows as fit.
"""

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from steelyard_common.bounded_parquet import LISTS_RATIO, TABLE_BYTES, Expands
from steelyard_common.bounded_schema import field_place, follow, table_fault

BATCH_BYTES, BATCH_RATIO = 64 << 20, 16
"""A batch unpacks to no more than one of these: bytes, times its size in the file."""
VALUES, VALUES_RATIO = 1 << 22, 8
"""A file has no more values, at all levels, than one of these: so many, so many for each of its bytes."""
PIECE_BYTES = 8 << 20
"""A piece of more than one row takes no more, written out."""
ROW_BYTES, ROW_RATIO = 64 << 20, 2
"""A row takes no more than one of these, written out: bytes, times the bytes of its file."""
_MAGIC = b"ARROW1\0\0"
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = 0, 1, 2, 3  # fields of a batch
_DICTIONARIES = "dictionary"
_POINTER = 8  # bytes that each value takes at least, once it is one of Python
_Sizes = int | npt.NDArray[np.int64]


def batches(path: Path, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an Arrow file, or of a stream in a file, at most `rows` at once, mapped from disk.

    Raises Expands and what pyarrow raises.
    """
    content = pa.memory_map(str(path)).read_buffer()
    size = content.size
    if content[:8].to_pybytes() == _MAGIC:
        content = content[8:]  # a file is a stream with a table of contents behind it
    _check(content)
    total = 0
    for batch in pa.ipc.open_stream(pa.BufferReader(content)):
        batch.validate()  # its buffers are as long as its arrays
        ends = []
        for start in range(0, batch.num_rows, rows):
            for end, written in _cuts(batch.slice(start, rows), max(ROW_BYTES, ROW_RATIO * size)):
                ends.append(start + end)
                total += written
            if total > max(TABLE_BYTES, LISTS_RATIO * size):
                raise Expands(f"its rows take more than {TABLE_BYTES} bytes, written out")
        # Offsets that lead out of their buffer would be followed. Texts are checked as often as they are named.
        batch.validate(full=True)
        for start, end in pairwise([0, *ends]):
            yield batch.slice(start, end - start)


def _check(content: pa.Buffer) -> None:
    """Raise Expands for a schema, a batch or a number of values that stands for too much."""
    values, most = 0, max(VALUES, VALUES_RATIO * content.size)
    for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(content)):
        if message.type == "schema" and (fault := table_fault(message.metadata.to_pybytes())):
            raise Expands(f"its schema: {fault}")
        if message.type in ("record batch", _DICTIONARIES):
            body = message.body or pa.py_buffer(b"")
            size, more = _measure(message, body)
            if size > max(BATCH_BYTES, BATCH_RATIO * body.size):
                raise Expands(
                    f"a {message.type} of {body.size} bytes unpacks to {size}; {BATCH_BYTES} are allowed, "
                    f"or {BATCH_RATIO} times as many as there are: write smaller batches"
                )
            values += more
            if values > most:
                raise Expands(
                    f"it stands for {values} values; {VALUES} are allowed, or {VALUES_RATIO} for each of its bytes"
                )


def _measure(message: pa.ipc.Message, body: pa.Buffer) -> tuple[int, int]:
    """Return the bytes of all buffers of a batch; each begins with its length, and its values follow."""
    data = message.metadata.to_pybytes()
    try:
        part = follow(data, field_place(data, struct.unpack_from("<I", data)[0], 2))
        if message.type == _DICTIONARIES:
            part = follow(data, field_place(data, part, 1))
        values = _values(data, part)
        if not field_place(data, part, _COMPRESSION):
            return body.size, values
        buffers = follow(data, field_place(data, part, _BUFFERS))
        count = struct.unpack_from("<I", data, buffers)[0]
        total = 0
        for number in range(count):
            start, size = struct.unpack_from("<qq", data, buffers + 4 + 16 * number)
            if size:
                length = struct.unpack("<q", body[start : start + 8].to_pybytes())[0]
                total += size if length < 0 else length
        return total, values
    except (struct.error, IndexError) as error:
        raise pa.ArrowInvalid(f"a message cannot be read: {error}") from error


def _values(data: bytes, part: int) -> int:
    """Return the number of values of a batch: rows, and at each level of each column."""
    place = field_place(data, part, _LENGTH)
    total: int = struct.unpack_from("<q", data, place)[0] if place else 0
    if place := field_place(data, part, _NODES):
        nodes = follow(data, place)
        count = struct.unpack_from("<I", data, nodes)[0]
        total += sum(struct.unpack_from("<q", data, nodes + 4 + 16 * node)[0] for node in range(count))
    return total


def _cuts(batch: pa.RecordBatch, most: int) -> Iterator[tuple[int, int]]:
    """Yield where each piece of a batch ends, and its bytes written out. Raises Expands for a row that is too long."""
    try:
        row: _Sizes = sum((_sizes(column) for column in batch.columns), 0)
    except IndexError as error:
        raise pa.ArrowInvalid("a list or a name leads out of its values") from error
    sizes = np.broadcast_to(np.asarray(row, np.int64), batch.num_rows)
    if (longest := int(sizes.max())) > most:
        raise Expands(f"a row takes {longest} bytes, written out; {most} are allowed")
    sums = np.cumsum(sizes)
    end = before = 0
    while end < batch.num_rows:
        end = max(end + 1, int(np.searchsorted(sums, before + PIECE_BYTES, "right")))
        yield end, int(sums[end - 1]) - before
        before = int(sums[end - 1])


def _sizes(column: Any) -> _Sizes:
    """Return the bytes that each value takes, written out; one number where all take the same."""
    kind, types = column.type, pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _sizes(column.storage)
    if types.is_dictionary(kind):
        return _sizes_of_names(column.dictionary, column.indices.fill_null(0).to_numpy(zero_copy_only=False))
    if types.is_run_end_encoded(kind):
        rows = np.arange(column.offset, column.offset + len(column))
        return _sizes_of_names(column.values, np.searchsorted(column.run_ends.to_numpy(), rows, "right"))
    if types.is_struct(kind):
        return sum((_sizes(column.field(number)) for number in range(kind.num_fields)), _POINTER)
    if types.is_nested(kind) and not types.is_union(kind):
        return _sizes_of_lists(column, *_bounds(column))
    if (lengths := _lengths(column)) is not None:
        return lengths + np.int64(_POINTER)
    return max(_POINTER, kind.byte_width) if types.is_fixed_size_binary(kind) else _POINTER


def _lengths(column: Any) -> "npt.NDArray[np.int64] | None":
    """Return the lengths of texts; None for other values."""
    kind, types = column.type, pa.types
    if types.is_string_view(kind) or types.is_binary_view(kind):
        views = np.frombuffer(column.buffers()[1], np.int32).reshape(-1, 4)  # each begins with its length
        lengths = views[column.offset : column.offset + len(column), 0].astype(np.int64)
        return np.where(column.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    short, long = (types.is_string, types.is_binary), (types.is_large_string, types.is_large_binary)
    if any(holds(kind) for holds in (*short, *long)):
        return np.asarray(pc.binary_length(column).fill_null(0).to_numpy(), np.int64)
    return None


def _bounds(column: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where the lists of a column start and end among its values."""
    kind, types = column.type, pa.types
    if types.is_fixed_size_list(kind):
        starts = (column.offset + np.arange(len(column), dtype=np.int64)) * kind.list_size
        return starts, starts + kind.list_size
    offsets = column.offsets.to_numpy().astype(np.int64)
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return offsets, offsets + column.sizes.to_numpy()
    return offsets[:-1], offsets[1:]


def _sizes_of_names(values: Any, places: npt.NDArray[np.int64]) -> _Sizes:
    """Return the bytes of each value that a row names. Where there are no values, all rows are null."""
    sizes = _sizes(values)
    if isinstance(sizes, int):
        return sizes
    return sizes[places] if len(sizes) else _POINTER


def _sizes_of_lists(column: Any, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> _Sizes:
    if not len(starts):
        return _POINTER
    first = int(starts.min())
    sizes = _sizes(column.values.slice(first, int(ends.max()) - first))
    if isinstance(sizes, int):
        return np.asarray((ends - starts) * sizes + _POINTER, np.int64)
    sums = np.concatenate([[0], np.cumsum(sizes)])
    return np.asarray(sums[ends - first] - sums[starts - first] + _POINTER, np.int64)
