"""Answers that wait for their part are durable within a second: a kill loses none of those that the journal holds."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.checkpoint import Checkpoint
from steelyard_evaluation.engine.doubles import (
    FixedDiscovery,
    SilentLog,
    epoch,
    error_rows,
    good_answer,
    json_answer,
    make_environment,
    make_expected_rows,
    make_spec,
    read_rows,
    replica,
    write_dataset,
)
from steelyard_evaluation.engine.engine import Stores, evaluate
from steelyard_evaluation.engine.journal import orphans
from steelyard_evaluation.engine.output import SAFE_CHECK_SECONDS, SAFE_SECONDS
from steelyard_evaluation.engine.plan import compile_plan
from steelyard_evaluation.engine.rowset import RowSet
from steelyard_evaluation.engine.verify import verify
from steelyard_evaluation.storage.store import StorageFull, Store, open_store

ROWS, FIRST = 40, 15
SPEC = make_spec(workersPerReplica=4, client={"badRequestPolicy": "Skip", "missingOutputPolicy": "Error"})


async def pieces_in(store: Store) -> list[str]:
    return [info.key async for info in store.list(layout.JOURNAL)]


async def rows_in(store: Store) -> int:
    """Number of rows that the journal holds."""
    pieces, _ = await orphans(store, Checkpoint((), RowSet(ROWS)))
    return sum(stop - start for piece in pieces for start, stop in piece.ranges)


async def copied(store: Store, target: Store) -> None:
    """The output as a kill leaves it at this moment: the durable files, and nothing else."""
    async for info in store.list(""):
        await target.create(info.key, await store.get(info.key))


@pytest.fixture(params=["memory", "file"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> list[Store]:
    """Stores of the dataset, of the output, and of the output as a kill left it."""
    names = ("dataset", "output", "killed")
    if request.param == "memory":
        return [open_store(f"memory://{tmp_path.name}-{tmp_path.parent.name}/{name}") for name in names]
    return [open_store((tmp_path / name).as_uri()) for name in names]


async def killed(places: list[Store], answered: int = FIRST) -> None:
    """Ask, answer the first rows only, and take the durable files once the journal has these rows."""
    dataset, output, target = places
    await write_dataset(dataset, ROWS)
    forever = asyncio.Event()

    async def answer(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        if row["number"] >= answered:
            await forever.wait()
        if row["number"] == 3:
            return json_answer({"error": "no"}, status=400)
        return await good_answer(row)

    async with replica(answer) as server, asyncio.timeout(60):
        asking = asyncio.create_task(
            evaluate(
                compile_plan(SPEC),
                Stores(dataset, output),
                FixedDiscovery({server.address}),
                epoch(1),
                make_environment(),
            )
        )
        while await rows_in(output) < answered:  # noqa: ASYNC110 - the store has no event for it
            await asyncio.sleep(0.02)
        await copied(output, target)
        forever.set()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


def test_the_times_together_are_less_than_a_second() -> None:
    assert SAFE_SECONDS + SAFE_CHECK_SECONDS < 1


async def test_the_next_attempt_takes_over_what_the_journal_has(places: list[Store]) -> None:
    dataset, _, output = places
    await killed(places)
    assert [info.key async for info in output.list(layout.PARTS)] == []  # no part was there yet
    async with replica() as server, asyncio.timeout(60):
        stores, discovery = Stores(dataset, output), FixedDiscovery({server.address})
        summary = await evaluate(compile_plan(SPEC), stores, discovery, epoch(2), make_environment())
        assert (summary.resumed, len(server.asked)) == (FIRST, ROWS - FIRST)
    manifest = await verify(compile_plan(SPEC), dataset, output, epoch(3))
    rows = read_rows(output, manifest)
    assert [row for row in rows if row[1] != 3] == [
        row for row in make_expected_rows(SPEC, ROWS) if row[1] != 3
    ]
    assert (manifest.rows.errors, manifest.rows.duplicates) == (1, 0)
    assert [row["_index_"] for row in await error_rows(output)] == [3]
    assert await pieces_in(output) == []


async def test_a_piece_with_a_changed_bit_counts_for_nothing(places: list[Store]) -> None:
    dataset, _, output = places
    await killed(places)
    key = (await pieces_in(output))[0]
    data = bytearray(await output.get(key))
    data[len(data) // 2] ^= 1
    await output.put(key, bytes(data))
    left = await rows_in(output)
    assert left < FIRST
    environment = make_environment()
    async with replica() as server, asyncio.timeout(60):
        stores, discovery = Stores(dataset, output), FixedDiscovery({server.address})
        summary = await evaluate(compile_plan(SPEC), stores, discovery, epoch(2), environment)
        assert (summary.resumed, len(server.asked)) == (left, ROWS - left)
    assert isinstance(environment.log, SilentLog)
    (warning,) = [
        line for line in environment.log.lines if line.startswith("a piece of the journal was changed")
    ]
    assert key in warning
    manifest = await verify(compile_plan(SPEC), dataset, output, epoch(3))
    assert (manifest.rows.present, manifest.rows.duplicates) == (ROWS, 0)


async def test_an_attempt_that_dies_while_it_takes_over_doubles_nothing(places: list[Store]) -> None:
    dataset, _, output = places
    await killed(places)
    journal = {key: await output.get(key) for key in await pieces_in(output)}
    async with replica() as server, asyncio.timeout(60):
        stores, discovery = Stores(dataset, output), FixedDiscovery({server.address})
        await evaluate(compile_plan(SPEC), stores, discovery, epoch(2), make_environment())
        for key, data in journal.items():  # as if they had not been deleted
            await output.create(key, data)
        summary = await evaluate(compile_plan(SPEC), stores, discovery, epoch(3), make_environment())
        assert (summary.resumed, len(server.asked)) == (ROWS, ROWS - FIRST)
    manifest = await verify(compile_plan(SPEC), dataset, output, epoch(4))
    assert (manifest.rows.present, manifest.rows.duplicates) == (ROWS, 0)


async def test_a_piece_whose_part_is_there_counts_no_more(places: list[Store]) -> None:
    _, output, target = places
    await killed(places)  # cancelled, its first attempt has written the part, and its pieces are gone
    (part,) = [info.key async for info in output.list(layout.PARTS) if info.key.endswith(".parquet")]
    assert await pieces_in(output) == []
    for key in await pieces_in(target):  # as if it had died before it could delete them
        await output.create(key, await target.get(key))
    known = Checkpoint((part.removeprefix(layout.PARTS),), RowSet(ROWS))
    assert await orphans(output, known) == ([], [])


async def test_where_parts_fill_fast_nothing_is_written_twice(places: list[Store]) -> None:
    dataset, output, _ = places
    await write_dataset(dataset, ROWS)
    counting = CountingStore(output)
    async with replica() as server:
        await evaluate(
            compile_plan(SPEC),
            Stores(dataset, counting),
            FixedDiscovery({server.address}),
            epoch(1),
            make_environment(),
        )
    assert counting.pieces <= 1  # none, but on a machine that stands still for half a second


async def test_a_piece_that_cannot_be_written_ends_the_attempt(places: list[Store]) -> None:
    dataset, output, _ = places
    await write_dataset(dataset, ROWS)
    forever = asyncio.Event()

    async def answer(row: Mapping[str, JsonValue]) -> web.StreamResponse:
        if row["number"] >= FIRST:
            await forever.wait()
        return await good_answer(row)

    async with replica(answer) as server, asyncio.timeout(60):
        full = CountingStore(output, full=True)
        with pytest.raises(StorageFull):
            await evaluate(
                compile_plan(SPEC),
                Stores(dataset, full),
                FixedDiscovery({server.address}),
                epoch(1),
                make_environment(),
            )
        forever.set()


class CountingStore:
    """A store that counts the pieces that are written to it, and may take none."""

    def __init__(self, store: Store, *, full: bool = False) -> None:
        self._store = store
        self._full = full
        self.pieces = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def create(self, key: str, data: bytes) -> None:
        if key.startswith(layout.JOURNAL):
            self.pieces += 1
            if self._full:
                raise StorageFull("no space left")
        await self._store.create(key, data)
