"""Checkpoint of an attempt: the finished parts, and their rows.

Number 0 of an epoch is written at its start and fences by content: parts of lower epochs that it does not name came
too late, from a writer that had not yet seen that it was outranked, and never count. Later ones make resuming quick.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.caps import Usage
from steelyard_evaluation.engine.parts import StoredRows, read_row_set
from steelyard_evaluation.engine.rowset import RowSet
from steelyard_evaluation.storage.checked import add_digest, check_record
from steelyard_evaluation.storage.store import ObjectExists, ObjectMissing, Store

READS_AT_ONCE = 32


@dataclass(frozen=True)
class Checkpoint:
    """Names of parts (without their folder), and the rows in them."""

    parts: tuple[str, ...]
    rows: RowSet
    tokens: Usage | None = None
    """Tokens of all its rows; None where they were not counted."""


async def write_checkpoint(store: Store, epoch: str, number: int, checkpoint: Checkpoint) -> None:
    body: dict[str, Any] = {
        "epoch": epoch,
        "total": checkpoint.rows.total,
        "rows": len(checkpoint.rows),
        "ranges": checkpoint.rows.ranges(),
        "parts": sorted(checkpoint.parts),
    }
    if checkpoint.tokens is not None:
        body["tokens"] = [checkpoint.tokens.prompt, checkpoint.tokens.completion]
    try:
        # Create-only: a second writer of this epoch would otherwise replace the list of parts that the first
        # relies on.
        await store.create(layout.checkpoint(epoch, number), orjson.dumps(add_digest(body)))
    except ObjectExists:
        raise RuntimeError(f"the checkpoint {number} of the epoch {epoch} is there already") from None


async def latest_checkpoint(store: Store, total: int) -> Checkpoint:
    """The newest checkpoint of the highest epoch; an empty one when there is none."""
    keys = [info.key async for info in store.list(layout.CHECKPOINTS)]
    # No attempt has begun, or one died between its claim and its first checkpoint.
    if not keys:
        return Checkpoint((), RowSet(total))
    # Keys begin with the epoch, then the number with leading zeros: the greatest key is the newest checkpoint.
    body = check_record(await store.get(max(keys)), store.url, max(keys))
    # Positions are ordinals times replications: against another total, every one of them would name another
    # row.
    if body["total"] != total:
        raise ValueError(f"{max(keys)} is of {body['total']} rows, not {total}")
    rows = RowSet(total)
    rows.add_ranges(body["ranges"])
    tokens = body.get("tokens")
    return Checkpoint(tuple(body["parts"]), rows, None if tokens is None else Usage(*tokens))


async def list_parts(store: Store) -> tuple[list[str], list[str]]:
    """The names of the parts that count, in order, and of those that came too late."""
    names = [info.key.removeprefix(layout.PARTS) async for info in store.list(layout.PARTS)]
    parts = sorted(filter(None, map(layout.PartName.parse, names)))
    starts = [info.key async for info in store.list(layout.CHECKPOINTS) if info.key.endswith("-000000.json")]
    # Before any attempt has begun, no row can have come too late.
    if not starts:
        return [part.name for part in parts], []
    start = check_record(await store.get(max(starts)), store.url, max(starts))
    epoch, adopted = start["epoch"], set(start["parts"])
    # A part of a lower epoch counts only where the attempt that replaced its writer saw it: its rows were not asked
    # again.
    counted = [part.name for part in parts if part.epoch >= epoch or part.name in adopted]
    late = [part.name for part in parts if part.epoch < epoch and part.name not in adopted]
    return counted, late


async def read_row_sets(store: Store, names: Iterable[str]) -> dict[str, StoredRows]:
    """Return the row sets of those parts that have one, in the order of `names`. Raises DigestMismatch."""
    # A long run has thousands of row sets, and an object store answers each in tens of milliseconds.
    gate = asyncio.Semaphore(READS_AT_ONCE)

    async def read(name: str) -> StoredRows | None:
        key = layout.PARTS + name + layout.ROWS_SUFFIX
        async with gate:
            try:
                return read_row_set(await store.get(key), store.url, key)
            except ObjectMissing:
                return None  # its writer died in between

    listed = list(names)
    rows = await asyncio.gather(*(read(name) for name in listed))
    return {name: stored for name, stored in zip(listed, rows, strict=True) if stored is not None}


def digests_of_parts(rows: Mapping[str, StoredRows]) -> dict[str, str]:
    """Return the digests of parts and of their row errors by their keys; parts of earlier versions lack them."""
    digests: dict[str, str] = {}
    for name, stored in rows.items():
        part = layout.PartName.parse(name)
        if part is not None and stored.digests is not None:
            digests[part.part] = stored.digests.part
            if stored.digests.errors is not None:
                digests[part.errors] = stored.digests.errors
    return digests
