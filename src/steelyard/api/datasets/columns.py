"""Columns of a dataset, where they are known when a request names it: from the footers of its files.

An uploader's word on the schema is not compared with the files, so it is not asked. The bytes read here are not
compared with a file's digest, for which the whole would have to be read: they lead to no more than a refusal. pyarrow
is not imported, because it would take 60 MB.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard_common.thrift import read_struct
from steelyard_evaluation.storage.store import StorageError, Store
from steelyard_schema.dataset import Dataset
from steelyard_schema.names import place

_MOST = 1 << 20
"""Longest footer, in bytes, that is read for a request: longer ones are left to the step."""
_MOST_FILES = 16
"""Most files of a dataset whose columns are read."""
_MOST_PIECES = 256
"""Most parts of columns that are read; each part takes a request to the store."""
_TAIL = 8
_NAMES, _CHILDREN, _TYPE, _SCHEMA = 4, 5, 1, 2
_GROUPS, _CHUNKS, _CHUNK, _PATH, _PACKED, _DATA, _DICTIONARY = 4, 1, 3, 3, 7, 9, 11
_WHOLE = (1, 2)
"""Physical types INT32 and INT64."""
_BROKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors by a broken footer: a dataset may have files of any content. The step names the fault."""

Columns = Mapping[str, bool]
"""Names of columns, and whether each holds whole numbers."""


@dataclass(frozen=True)
class FilePart:
    """Parts of a Parquet file, by where they begin: its footer, and all of some columns."""

    size: int
    pieces: Mapping[int, bytes]


async def find_columns(store: Store, dataset: Dataset) -> Columns | None:
    """Return the columns; None where they are not known now, because the dataset is not Ready or cannot be read."""
    keys = _keys(dataset)
    if not keys or (read := await _footer(store, keys[0])) is None:
        return None
    return await asyncio.to_thread(_columns, read[1])


async def read_columns(
    store: Store, dataset: Dataset, columns: Collection[str], most_bytes: int
) -> Sequence[FilePart] | None:
    """Return some columns of all files; None where they cannot be read, or take more than `most_bytes`.

    How much they take is known before any of it is read.
    """
    keys = _keys(dataset)
    if not 0 < len(keys) <= _MOST_FILES:
        return None
    plans = []
    for key in keys:
        if (footer := await _footer(store, key)) is None:
            return None
        pieces = await asyncio.to_thread(_pieces, *footer, columns)
        if pieces is None:
            return None
        plans.append((key, footer, pieces))
    lengths = [length for _, _, pieces in plans for _, length in pieces]
    if len(lengths) > _MOST_PIECES or sum(lengths) > most_bytes:
        return None
    try:
        return [await _part(store, *plan) for plan in plans]
    except StorageError:
        return None


async def _part(
    store: Store, key: str, footer: tuple[int, bytes], pieces: Collection[tuple[int, int]]
) -> FilePart:
    size, content = footer
    end = content + len(content).to_bytes(4, "little") + b"PAR1"
    read = {start: await store.get_range(key, start, length) for start, length in pieces}
    return FilePart(size, {**read, size - len(end): end})


def _keys(dataset: Dataset) -> list[str]:
    """Return the keys of the files with rows; none of a dataset that is not Ready."""
    paths = sorted(
        file.path
        for file in dataset.artifacts
        if file.path.endswith(".parquet") and not any(part.startswith(".") for part in file.path.split("/"))
    )
    return [f"{place('Dataset', dataset.id)}/{path}" for path in paths if dataset.status == "Ready"]


async def _footer(store: Store, key: str) -> tuple[int, bytes] | None:
    """Return the size of a file and its footer; None where the footer is missing or cannot be read."""
    try:
        size = (await store.head(key)).size
        tail = await store.get_range(key, max(0, size - _TAIL), min(size, _TAIL))
        length = int.from_bytes(tail[:4], "little")
        if len(tail) < _TAIL or not tail.endswith(b"PAR1") or not 0 < length <= min(_MOST, size - _TAIL):
            return None
        return size, await store.get_range(key, size - _TAIL - length, length)
    except StorageError:
        return None


def _columns(footer: bytes) -> Columns | None:
    try:
        elements = read_struct(footer, 0, 0)[0][_SCHEMA]
        columns: dict[str, bool] = {}
        number = 1  # the first one is the root
        for _ in range(elements[0][_CHILDREN]):
            element = elements[number]
            columns[element[_NAMES].decode()] = element.get(_TYPE) in _WHOLE and not element.get(_CHILDREN)
            number = _after(elements, number)
    except _BROKEN:
        return None
    return columns


def _pieces(size: int, footer: bytes, columns: Collection[str]) -> list[tuple[int, int]] | None:
    """Return where the columns stand, as first bytes and lengths; None where the footer does not say it."""
    try:
        groups = read_struct(footer, 0, 0)[0][_GROUPS]
        chunks = [chunk[_CHUNK] for group in groups for chunk in group[_CHUNKS]]
        pieces = [_piece(chunk) for chunk in chunks if chunk[_PATH][0].decode() in columns]
        inside = all(0 <= start <= start + length <= size for start, length in pieces)
    except _BROKEN:
        return None
    return pieces if inside else None


def _piece(chunk: Mapping[int, Any]) -> tuple[int, int]:
    return min(chunk[_DATA], chunk.get(_DICTIONARY) or chunk[_DATA]), chunk[_PACKED]


def _after(elements: list[dict[int, int]], number: int) -> int:
    """Return the number of the element behind one and all below it: they stand in the order of a depth-first walk."""
    left = 1
    while left:
        left += elements[number].get(_CHILDREN, 0) - 1
        number += 1
    return number
