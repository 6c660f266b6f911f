"""Columns of a dataset, where they are known when a request names it: from the footer of its first file.

What an uploader says of the schema is not compared with the files, so it is not asked. The footer is not compared with
the file's digest, for which the whole would have to be read: no more than a refusal is made of it. pyarrow is not
imported, which would take 60 MB.
"""

import asyncio
from collections.abc import Mapping

from steelyard.schema.dataset import Dataset
from steelyard.schema.names import place
from steelyard.storage.store import StorageError, Store
from steelyard.thrift import read_struct

_MOST = 1 << 20
"""Longest footer, in bytes, that is read for a request: longer ones are left to the step."""
_TAIL = 8
_NAMES, _CHILDREN, _TYPE, _SCHEMA = 4, 5, 1, 2
_WHOLE = (1, 2)
"""Physical types INT32 and INT64."""

Columns = Mapping[str, bool]
"""Names of columns, and whether each holds whole numbers."""


async def known_columns(store: Store, dataset: Dataset) -> Columns | None:
    """Return the columns; None where they are not known now, because the dataset is not Ready or cannot be read."""
    paths = sorted(
        file.path
        for file in dataset.artifacts
        if file.path.endswith(".parquet") and not any(part.startswith(".") for part in file.path.split("/"))
    )
    if dataset.status != "Ready" or not paths:
        return None
    key = f"{place('Dataset', dataset.id)}/{paths[0]}"
    try:
        size = (await store.head(key)).size
        tail = await store.get_range(key, max(0, size - _TAIL), min(size, _TAIL))
        length = int.from_bytes(tail[:4], "little")
        if len(tail) < _TAIL or not tail.endswith(b"PAR1") or not 0 < length <= min(_MOST, size - _TAIL):
            return None
        footer = await store.get_range(key, size - _TAIL - length, length)
    except StorageError:
        return None
    return await asyncio.to_thread(_columns, footer)


def _columns(footer: bytes) -> Columns | None:
    try:
        elements = read_struct(footer, 0, 0)[0][_SCHEMA]
        columns: dict[str, bool] = {}
        number = 1  # the first one is the root
        for _ in range(elements[0][_CHILDREN]):
            element = elements[number]
            columns[element[_NAMES].decode()] = element.get(_TYPE) in _WHOLE and not element.get(_CHILDREN)
            number = _after(elements, number)
    # The files of a dataset are anything that was uploaded; the step says what is wrong with them.
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    return columns


def _after(elements: list[dict[int, int]], number: int) -> int:
    """Return the number of the element behind one and all below it: they stand in the order of a depth-first walk."""
    left = 1
    while left:
        left += elements[number].get(_CHILDREN, 0) - 1
        number += 1
    return number
