"""An attempt that dies before or after any of its writes loses nothing and doubles nothing."""

import secrets
from pathlib import Path

import pytest

from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.crashes import Crash, CrashingStore
from steelyard_evaluation.engine.doubles import (
    FixedDiscovery,
    epoch,
    make_environment,
    make_expected_rows,
    make_spec,
    read_rows,
    replica,
    write_dataset,
)
from steelyard_evaluation.engine.engine import Stores, evaluate
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.plan import compile_plan
from steelyard_evaluation.engine.verify import verify
from steelyard_evaluation.storage.objects import ObjectStore
from steelyard_evaluation.storage.store import StorageFull, Store, open_store

ROWS, BATCH, IN_FLIGHT = 36, 8, 4
SPEC = make_spec(
    replications=2,
    workersPerReplica=IN_FLIGHT,
    client={"batchSize": BATCH, "duplicateOutputPolicy": "Error", "missingOutputPolicy": "Error"},
)
WRITES = 22
"""Number of writes that an attempt makes, about; the last test points are beyond its end."""


# The store is the same after a write and before the next one; only the answers paid for in between differ.
POINTS = [pytest.param(at, True, id=f"after {at}") for at in range(WRITES)] + [
    pytest.param(at, False, id=f"before {at}", marks=[pytest.mark.soak] if at % 5 else [])
    for at in range(WRITES)
]


@pytest.mark.parametrize(("at", "after"), POINTS)
async def test_the_next_attempt_goes_on_from_every_point(at: int, after: bool) -> None:
    name = secrets.token_hex(8)
    dataset, whole = open_store(f"memory://{name}/dataset"), open_store(f"memory://{name}/output")
    await write_dataset(dataset, ROWS)
    async with replica() as server:
        discovery = FixedDiscovery({server.address})
        dying = CrashingStore(f"memory://{name}/output", at, after=after)
        try:
            await evaluate(
                compile_plan(SPEC), Stores(dataset, dying), discovery, epoch(1), make_environment()
            )
        except Crash:
            paid = len(server.asked)
        else:
            assert not dying.dead
            paid = 0
        summary = await evaluate(
            compile_plan(SPEC), Stores(dataset, whole), discovery, epoch(2), make_environment()
        )
        twice = len(server.asked) - 2 * ROWS
    assert summary.resumed == (2 * ROWS if not dying.dead else paid - twice)
    assert twice <= IN_FLIGHT + 2 * BATCH
    manifest = await verify(compile_plan(SPEC), dataset, whole, epoch(1))
    assert read_rows(whole, manifest) == make_expected_rows(SPEC, ROWS)
    assert manifest.rows.duplicates == 0


async def test_the_attempt_makes_as_many_writes_as_the_points_cover() -> None:
    name = secrets.token_hex(8)
    dataset = open_store(f"memory://{name}/dataset")
    await write_dataset(dataset, ROWS)
    counting = CrashingStore(f"memory://{name}/output", -1, after=False)
    async with replica() as server:
        await evaluate(
            compile_plan(SPEC),
            Stores(dataset, counting),
            FixedDiscovery({server.address}),
            epoch(1),
            make_environment(),
        )
    assert len(counting.writes) == WRITES - 1
    for key in counting.writes:
        if key.endswith(layout.ROWS_SUFFIX):
            part = key.removesuffix(layout.ROWS_SUFFIX)
            assert counting.writes.index(part) < counting.writes.index(key)


@pytest.mark.parametrize("at", range(4))
async def test_verification_interrupted_anywhere_ends_the_same(at: int) -> None:
    name = secrets.token_hex(8)
    url = f"memory://{name}/output"
    dataset, whole = open_store(f"memory://{name}/dataset"), open_store(url)
    await write_dataset(dataset, ROWS)
    async with replica() as server:
        await evaluate(
            compile_plan(SPEC),
            Stores(dataset, whole),
            FixedDiscovery({server.address}),
            epoch(1),
            make_environment(),
        )
    for after in (False, True):
        with pytest.raises(Crash):
            await verify(
                compile_plan(SPEC), dataset, VerifyCrash(url, at, after=after), epoch(1 + after), file_bytes=1
            )
        assert layout.MANIFEST not in {info.key async for info in whole.list()} or (after and at == 3)
    manifest = await verify(compile_plan(SPEC), dataset, whole, epoch(3), file_bytes=1)
    assert read_rows(whole, manifest) == make_expected_rows(SPEC, ROWS)
    assert {info.key async for info in whole.list("part-")} == {entry.path for entry in manifest.files}
    again = await verify(compile_plan(SPEC), dataset, whole, epoch(4))
    assert again == manifest


class VerifyCrash(CrashingStore):
    """Counts the files that verification puts as well; the last write it makes is the manifest."""

    async def put_file(self, key: str, path: Path) -> None:
        self._before(key)
        await ObjectStore.put_file(self, key, path)
        self._wrote()

    async def create(self, key: str, data: bytes) -> None:
        if key == layout.MANIFEST and self._left > 0:
            self._left = 0
        await super().create(key, data)


class FullStore(ObjectStore):
    """Takes `room` parts, then is full; `room` may grow."""

    def __init__(self, url: str, room: int) -> None:
        super().__init__(url)
        self.room = room

    async def put(self, key: str, data: bytes) -> None:
        if self.room == 0 and key == layout.PROGRESS:
            raise StorageFull(f"{self.url}/{key}: no space left")
        await super().put(key, data)

    async def create(self, key: str, data: bytes) -> None:
        if key.startswith(layout.PARTS) and key.endswith(".parquet"):
            if self.room == 0:
                raise StorageFull(f"{self.url}/{key}: no space left")
            self.room -= 1
        await super().create(key, data)


async def test_full_storage_ends_the_attempt_which_can_be_resumed() -> None:
    name = secrets.token_hex(8)
    dataset, output = open_store(f"memory://{name}/dataset"), FullStore(f"memory://{name}/output", room=3)
    await write_dataset(dataset, ROWS)
    async with replica() as server:
        discovery = FixedDiscovery({server.address})
        with pytest.raises(StorageFull, match="no space left"):
            await evaluate(
                compile_plan(SPEC), Stores(dataset, output), discovery, epoch(1), make_environment()
            )
        output.room = 100
        summary = await evaluate(
            compile_plan(SPEC), Stores(dataset, output), discovery, epoch(2), make_environment()
        )
    assert summary.resumed == 3 * BATCH
    assert read_rows(
        output, await verify(compile_plan(SPEC), dataset, output, epoch(1))
    ) == make_expected_rows(SPEC, ROWS)


async def test_progress_that_cannot_be_written_fails_nothing() -> None:
    name = secrets.token_hex(8)
    dataset, output = open_store(f"memory://{name}/dataset"), FullStore(f"memory://{name}/output", room=1)
    spec = make_spec()
    await write_dataset(dataset, ROWS)
    async with replica() as server:
        stores = Stores(dataset, output)
        summary = await evaluate(
            compile_plan(spec), stores, FixedDiscovery({server.address}), epoch(1), make_environment()
        )
    assert (summary.total, output.room) == (ROWS, 0)


async def test_a_late_part_of_a_fenced_writer_does_not_count() -> None:
    name = secrets.token_hex(8)
    dataset, output = open_store(f"memory://{name}/dataset"), open_store(f"memory://{name}/output")
    await write_dataset(dataset, ROWS)
    async with replica() as server:
        discovery = FixedDiscovery({server.address})
        await evaluate(compile_plan(SPEC), Stores(dataset, output), discovery, epoch(2), make_environment())
    first = layout.PartName(epoch(2), 0, 0)
    late = layout.PartName(epoch(1), 0, 7)
    await output.create(late.part, await output.get(first.part))
    manifest = await verify(compile_plan(SPEC), dataset, output, epoch(1))
    assert manifest.leftOut == [late.name]
    assert read_rows(output, manifest) == make_expected_rows(SPEC, ROWS)


async def test_checkpoints_make_resuming_read_only_what_came_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard_evaluation.engine.output.CHECKPOINT_PARTS", 3)
    name = secrets.token_hex(8)
    dataset, output = open_store(f"memory://{name}/dataset"), open_store(f"memory://{name}/output")
    await write_dataset(dataset, ROWS)
    async with replica() as server:
        discovery = FixedDiscovery({server.address})
        await evaluate(compile_plan(SPEC), Stores(dataset, output), discovery, epoch(1), make_environment())
        keys = [info.key async for info in output.list(layout.CHECKPOINTS)]
        assert len(keys) == 4
        for key in [
            info.key async for info in output.list(layout.PARTS) if info.key.endswith(layout.ROWS_SUFFIX)
        ]:
            await output.delete(key)
        assert (await resumed(dataset, output, discovery, 2)) == 2 * ROWS
        await output.delete(
            layout.PartName(epoch(1), 0, 0).part
        )  # what a checkpoint says is not taken on trust
        assert (await resumed(dataset, output, discovery, 3)) == 2 * ROWS - BATCH


async def resumed(dataset: Store, output: Store, discovery: FixedDiscovery, attempt: int) -> int:
    summary = await evaluate(
        compile_plan(SPEC), Stores(dataset, output), discovery, epoch(attempt), make_environment()
    )
    return summary.resumed


async def test_a_damaged_output_is_refused() -> None:
    name = secrets.token_hex(8)
    dataset, output = open_store(f"memory://{name}/dataset"), open_store(f"memory://{name}/output")
    await write_dataset(dataset, ROWS)
    await output.create(layout.PartName(epoch(1), 0, 0).part, b"half a part")
    with pytest.raises(EvaluationFailed, match="damaged") as error:
        await resumed(dataset, output, FixedDiscovery(set()), 2)
    assert error.value.code == "OutputInvalid"
