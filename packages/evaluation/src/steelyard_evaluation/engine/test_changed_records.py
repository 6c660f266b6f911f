"""Files of an evaluation that is not verified yet: one changed bit in any of them is noticed before it counts."""

import io
from collections.abc import Callable, Mapping
from contextlib import suppress

import orjson
import pyarrow.parquet as pq
import pytest
from aiohttp import web

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.doubles import (
    FixedDiscovery,
    epoch,
    good_answer,
    json_answer,
    make_environment,
    make_expected_rows,
    make_spec,
    make_stores,
    read_rows,
    replica,
    write_dataset,
)
from steelyard_evaluation.engine.engine import Stores, evaluate
from steelyard_evaluation.engine.manifest import Manifest
from steelyard_evaluation.engine.parts import Digests, read_row_set, row_set
from steelyard_evaluation.engine.plan import compile_plan
from steelyard_evaluation.engine.record import record_server
from steelyard_evaluation.engine.verify import verify
from steelyard_evaluation.storage.checked import DigestMismatch, add_digest, check_record
from steelyard_evaluation.storage.store import Store

ROWS, REFUSED = 8, 3
PLAN = compile_plan(
    make_spec(client={"badRequestPolicy": "Skip", "missingOutputPolicy": "Error", "batchSize": ROWS})
)
PLACES: Mapping[str, Callable[[int], int]] = {
    "first": lambda size: 0,
    "middle": lambda size: size // 2,
    "last": lambda size: size - 1,
}
VERIFIED = {
    "a part": layout.PARTS + "*.parquet",
    "row errors": layout.ERRORS + "*.parquet",
    "a row set": layout.PARTS + "*.rows",
    "the first checkpoint": layout.CHECKPOINTS + "*.json",
    "run.json": layout.RUN,
    "the record of a server": layout.SERVERS + "*.json",
}
RESUMED = ("a row set", "the first checkpoint", "run.json")
"""Files that an attempt reads that goes on: it does not read the answers again."""


async def answer(row: Mapping[str, JsonValue]) -> web.StreamResponse:
    if row["number"] == REFUSED:
        return json_answer({"error": "no"}, status=400)
    return await good_answer(row)


async def ask(stores: Stores, attempt: int = 1) -> int:
    """Evaluate; return the number of calls."""
    async with replica(answer) as server:
        discovery = FixedDiscovery({server.address})
        await evaluate(PLAN, stores, discovery, epoch(attempt), make_environment())
        return len(server.asked)


async def check(stores: Stores, attempt: int = 9) -> Manifest:
    return await verify(PLAN, stores.dataset, stores.output, epoch(attempt))


@pytest.fixture
async def stores() -> Stores:
    made = make_stores()
    await write_dataset(made.dataset, ROWS)
    await record_server(made.output, {"name": "a server"})
    await ask(made)
    return made


async def the_key(store: Store, pattern: str) -> str:
    start, _, end = pattern.partition("*")
    (key,) = [info.key async for info in store.list(start) if info.key.endswith(end)]
    return key


async def flip(store: Store, key: str, place: str) -> None:
    data = bytearray(await store.get(key))
    data[PLACES[place](len(data))] ^= 1
    await store.put(key, bytes(data))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", VERIFIED)
async def test_a_changed_file_is_never_verified(what: str, place: str, stores: Stores) -> None:
    key = await the_key(stores.output, VERIFIED[what])
    await flip(stores.output, key, place)
    with pytest.raises(DigestMismatch) as refusal:
        await check(stores)
    assert key in str(refusal.value)
    assert [info.key async for info in stores.output.list(layout.MANIFEST)] == []
    await flip(stores.output, key, place)
    assert (await check(stores, 10)).rows.present == ROWS


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", RESUMED)
async def test_no_attempt_goes_on_from_a_changed_record(what: str, place: str, stores: Stores) -> None:
    key = await the_key(stores.output, VERIFIED[what])
    await flip(stores.output, key, place)
    with pytest.raises(DigestMismatch) as refusal:
        await ask(stores, 2)
    assert key in str(refusal.value)


async def test_the_rows_of_a_part_that_was_moved_away_are_asked_again(stores: Stores) -> None:
    key = await the_key(stores.output, VERIFIED["a part"])
    await flip(stores.output, key, "middle")
    with pytest.raises(DigestMismatch):
        await check(stores)
    await stores.output.delete(key)
    assert await ask(stores, 2) == ROWS
    rows = read_rows(stores.output, await check(stores, 10))
    assert [row for row in rows if row[1] != REFUSED] == [
        row for row in make_expected_rows(make_spec(), ROWS) if row[1] != REFUSED
    ]


async def test_the_digests_of_a_part_without_its_row_set_are_recorded_with_a_new_one(stores: Stores) -> None:
    key = await the_key(stores.output, VERIFIED["a row set"])
    written = read_row_set(await stores.output.get(key), "", key)
    await stores.output.delete(key)
    assert await ask(stores, 2) == 0
    assert read_row_set(await stores.output.get(key), "", key).digests == written.digests


async def test_what_an_earlier_version_wrote_is_read(stores: Stores) -> None:
    for pattern in (layout.PARTS + "*.rows", layout.CHECKPOINTS + "*.json", layout.RUN):
        key = await the_key(stores.output, pattern)
        content = check_record(await stores.output.get(key), "", key)
        content.pop("digests", None)
        await stores.output.put(key, orjson.dumps(content | {"schemaVersion": "0.1"}))
    assert await ask(stores, 2) == 0
    assert (await check(stores)).rows.present == ROWS


async def test_an_input_that_was_changed_in_place_is_to_be_put_back() -> None:
    stores = make_stores()
    await write_dataset(stores.dataset, ROWS)
    (key,) = [info.key async for info in stores.dataset.list()]
    data = await stores.dataset.get(key)
    assert await ask(stores) > 0
    changed = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(data)), changed, compression="gzip")
    await stores.dataset.put(key, changed.getvalue())
    with pytest.raises(DigestMismatch, match="put the file back") as refusal:
        await ask(stores, 2)
    assert str(refusal.value).startswith(f"{stores.dataset.url}/{key} ")
    await stores.dataset.put(key, data)
    assert await ask(stores, 3) == 0


def test_every_bit_of_a_record_counts() -> None:
    data = row_set([1, 2, 5], Digests.compute(b"part", None))
    assert read_row_set(data, "", "").ranges == [[1, 3], [5, 6]]
    unnoticed = []
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with suppress(DigestMismatch):
            unnoticed.append((bit, check_record(bytes(changed), "", "")))
    assert unnoticed == []


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"3", b"null", b'{"schemaVersion": "0.2"}', b"\xff"])
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(DigestMismatch, match="it is not a record"):
        check_record(data, "", "")


def test_a_digest_holds_for_every_value_of_json() -> None:
    content: dict[str, JsonValue] = {"b": [1, 2.5, 1e300, None, True, {"z": "ü", "a": ""}], "a": -0.0}
    assert check_record(orjson.dumps(add_digest(content), option=orjson.OPT_INDENT_2), "", "") == {
        **content,
        "schemaVersion": "0.2",
    }
