"""Resumption: rows that earlier attempts finished are not called, or paid for, again.

Everything is read from storage: it works on another machine with an empty disk.
"""

import asyncio
import contextlib
from collections.abc import Callable

import pyarrow as pa

from steelyard_common.bounded_parquet import batches
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.caps import Usage
from steelyard_evaluation.engine.checkpoint import (
    Checkpoint,
    digests_of_parts,
    latest_checkpoint,
    list_parts,
    read_row_sets,
)
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.indexes import ABSENT, IndexMap
from steelyard_evaluation.engine.parts import Digests, row_set
from steelyard_evaluation.engine.rowset import Positions, RowSet
from steelyard_evaluation.engine.shape import INDEX, REPLICATION, RESPONSES
from steelyard_evaluation.storage.checked import CheckedStore, compute_sha256
from steelyard_evaluation.storage.store import ObjectExists, ObjectMissing, Store, sync_reader

Count = Callable[[list[dict[str, JsonValue]]], Usage]


async def resume(
    store: Store,
    indexes: IndexMap,
    replications: tuple[str, ...],
    total: int,
    count: Count | None = None,
) -> Checkpoint:
    """The parts that count so far and their rows; with `count`, also their tokens.

    A part without a row set (its writer died in between) is whole all the same: its row set is made now.
    """
    try:
        known = await latest_checkpoint(store, total)
        counted, _ = await list_parts(store)
        if not set(known.parts) <= set(counted):  # a part was removed: what the checkpoint says is not true
            known = Checkpoint((), RowSet(total))
        # Parts that were written after the last checkpoint, which is made every hundred parts only.
        unknown = sorted(set(counted) - set(known.parts))
        written = await read_row_sets(store, unknown)
        # An attempt that counted no tokens left a checkpoint without them: they are read from the answers.
        tokens, uncounted = known.tokens or Usage(), [] if known.tokens else list(known.parts)
        for name, stored in written.items():
            known.rows.add_ranges(stored.ranges)
            tokens += stored.tokens or Usage()
            if stored.tokens is None:
                uncounted.append(name)
        # The writer died between the part and its row set.
        for name in sorted(set(unknown) - set(written)):
            known.rows.add(await _make_row_set(store, name, indexes, replications))
            uncounted.append(name)
        if count is not None:
            parts = CheckedStore(store, digests_of_parts(await read_row_sets(store, uncounted)))
            for name in uncounted:
                tokens += await asyncio.to_thread(_tokens_of_part, parts, layout.PARTS + name, count)
    except (ValueError, KeyError, pa.ArrowException) as error:
        raise EvaluationFailed(
            "OutputInvalid", f"the output to go on with is damaged: {error}", permanent=True
        ) from error
    return Checkpoint(tuple(counted), known.rows, tokens if count else None)


def _tokens_of_part(store: Store, key: str, count: Count) -> Usage:
    tokens = Usage()
    with sync_reader(store, key) as reader:
        for batch in batches(reader, 1024, [RESPONSES]):
            tokens = sum((count(row) for row in batch.column(0).to_pylist() if row is not None), tokens)
    return tokens


async def _make_row_set(
    store: Store, name: str, indexes: IndexMap, replications: tuple[str, ...]
) -> list[int]:
    positions = await asyncio.to_thread(_positions_of_part, store, layout.PARTS + name, indexes, replications)
    part = layout.PartName.parse(name)
    assert part is not None
    try:
        errors = await compute_sha256(store, part.errors)
    except ObjectMissing:
        errors = None
    digests = Digests(await compute_sha256(store, part.part), errors)
    with contextlib.suppress(ObjectExists):  # then a writer that is being fenced off finished it after all
        await store.create(part.rows, row_set(positions, digests))
    return positions


def _positions_of_part(store: Store, key: str, indexes: IndexMap, replications: tuple[str, ...]) -> list[int]:
    with sync_reader(store, key) as reader:
        row_positions: list[int] = []
        for batch in batches(reader, 65536, [INDEX, REPLICATION]):
            row_positions.extend(positions(batch, indexes, replications).tolist())
    if ABSENT in row_positions:
        raise ValueError(f"{key} has rows that are not in the dataset")
    return row_positions


def positions(batch: pa.RecordBatch, indexes: IndexMap, replications: tuple[str, ...]) -> Positions:
    """The positions of a part's rows; ABSENT for the rows of another evaluation."""
    import pyarrow.compute as pc  # takes long, and a first attempt has no use for it

    ordinals = indexes.ordinals(batch.column(INDEX).to_numpy(zero_copy_only=False))
    names = pa.array(replications, pa.string())
    numbers = pc.index_in(batch.column(REPLICATION), value_set=names).fill_null(ABSENT).to_numpy()
    known = (ordinals != ABSENT) & (numbers != ABSENT)
    result: Positions = ordinals * len(replications) + numbers
    result[~known] = ABSENT
    return result
