"""Answers of the last second, durable before the part that they will be in (ADR 35).

A part is written when it is full, or after some seconds: until then its rows would be lost with the process, and paid
for again. So rows that have waited for half a second are written as a piece, an object of its own; it is deleted once
the part is there. The next attempt takes over the pieces of parts that never came, as parts of its own.
"""

import base64
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import orjson
import pyarrow as pa

from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.caps import Usage
from steelyard_evaluation.engine.checkpoint import Checkpoint
from steelyard_evaluation.engine.parts import FinishedRow, encode, read_row_set
from steelyard_evaluation.engine.replicas import EventLog
from steelyard_evaluation.engine.rowset import Ranges, RowSet
from steelyard_evaluation.storage.checked import DigestMismatch, add_digest, check_record
from steelyard_evaluation.storage.store import ObjectExists, ObjectMissing, Store


@dataclass(frozen=True)
class Piece:
    """Some rows of a part that never came: the files of a part."""

    part: bytes
    errors: bytes | None
    rows: bytes
    ranges: Ranges
    tokens: Usage | None


class Journal:
    """The pieces of one attempt."""

    def __init__(self, store: Store, epoch: str, schema: pa.Schema) -> None:
        self._store = store
        self._epoch = epoch
        self._schema = schema
        self._keys: dict[int, list[str]] = {}

    def name(self, part: int) -> str:
        """Return the name of the next piece of a part, from now on one of those that go with it."""
        keys = self._keys.setdefault(part, [])
        keys.append(layout.PieceName(self._epoch, part, len(keys)).key)
        return keys[-1]

    def encode(self, rows: Sequence[FinishedRow]) -> bytes:
        """Return the content of a piece. Blocking."""
        encoded = encode(rows, self._schema)
        files = {"part": encoded.part, "errors": encoded.errors, "rows": encoded.rows}
        texts = {
            name: None if data is None else base64.b64encode(data).decode() for name, data in files.items()
        }
        return orjson.dumps(add_digest(texts))

    async def drop(self, part: int) -> None:
        """Delete the pieces of a part that is durable."""
        for key in self._keys.pop(part, ()):
            # A piece may still be on its way; left behind, it counts no more than the part that is there.
            with suppress(ObjectMissing):
                await self._store.delete(key)


async def orphans(store: Store, known: Checkpoint) -> tuple[list[Piece], list[DigestMismatch]]:
    """Return the pieces whose rows stand in no part that counts, and what is wrong with those that were changed."""
    parts, rows = set(known.parts), RowSet(known.rows.total)
    rows.add_ranges(known.rows.ranges())
    names = [name for name in await _names(store) if name.part not in parts]
    pieces, changed = [], []
    for name in names:
        try:
            piece = _read(await store.get(name.key), store.url, name.key)
        except ObjectMissing:
            continue  # its writer is still there, and has written the part meanwhile
        except DigestMismatch as error:
            changed.append(error)
            continue
        # A piece is of one writer, so that its rows are known together. One that came late, from a writer that was
        # replaced, may share some with a part: they were asked again.
        if not any(position in rows for start, stop in piece.ranges for position in range(start, stop)):
            rows.add_ranges(piece.ranges)
            pieces.append(piece)
    return pieces, changed


async def adopt(store: Store, epoch: str, known: Checkpoint, log: EventLog) -> tuple[Checkpoint, int]:
    """Make parts of `epoch` of the orphans; return the durable rows now, and the number of these parts.

    A piece that was changed does not count: its rows are asked again, and `log` says so.
    """
    pieces, changed = await orphans(store, known)
    for error in changed:
        log.warning("a piece of the journal was changed: its rows are asked again", reason=str(error))
    names, tokens = list(known.parts), known.tokens
    for number, piece in enumerate(pieces):
        name = layout.PartName(epoch, 0, number)
        files = ((name.errors, piece.errors), (name.part, piece.part), (name.rows, piece.rows))
        for key, data in files:
            # There already where an attempt of this very epoch was cut off here.
            with suppress(ObjectExists):
                if data is not None:
                    await store.create(key, data)
        known.rows.add_ranges(piece.ranges)
        names.append(name.name)
        if tokens is not None:
            tokens += piece.tokens or Usage()
    return Checkpoint(tuple(names), known.rows, tokens), len(pieces)


async def clear(store: Store, epoch: str) -> None:
    """Delete the pieces of all epochs up to `epoch`: their rows are durable elsewhere, or were asked again."""
    for name in await _names(store):
        if name.epoch <= epoch:
            with suppress(ObjectMissing):
                await store.delete(name.key)


async def _names(store: Store) -> list[layout.PieceName]:
    keys = [info.key async for info in store.list(layout.JOURNAL)]
    return sorted(name for name in map(layout.PieceName.parse, keys) if name is not None)


def _read(data: bytes, store: str, key: str) -> Piece:
    content = check_record(data, store, key)
    part, errors, rows = (content[name] for name in ("part", "errors", "rows"))
    stored = read_row_set(base64.b64decode(rows), store, key)
    return Piece(
        base64.b64decode(part),
        None if errors is None else base64.b64decode(errors),
        base64.b64decode(rows),
        stored.ranges,
        stored.tokens,
    )
