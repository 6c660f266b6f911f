"""Verification: every fault of an output is found and named; a correct one becomes final."""

import hashlib
import itertools
import secrets
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.doubles import (
    epoch,
    make_expected_rows,
    make_spec,
    read_rows,
    write_dataset,
    write_part,
)
from steelyard_evaluation.engine.epoch import claim
from steelyard_evaluation.engine.errors import EvaluationFailed, Fenced
from steelyard_evaluation.engine.manifest import Manifest, read_manifest
from steelyard_evaluation.engine.parts import parquet
from steelyard_evaluation.engine.plan import compile_plan
from steelyard_evaluation.engine.verify import FILE_BYTES, verify
from steelyard_evaluation.storage.store import ObjectMissing, Store, open_store, sync_reader
from steelyard_schema.resources import EvaluationResourceSpec

ROWS = 6
SPEC = make_spec(replications=2)
ALL = list(itertools.product(range(2), range(ROWS)))


@pytest.fixture
async def dataset() -> Store:
    return await make_dataset()


@pytest.fixture
def output() -> Store:
    return open_store(f"memory://{secrets.token_hex(8)}/output")


async def make_dataset(**changes: int) -> Store:
    store = open_store(f"memory://{secrets.token_hex(8)}/dataset")
    await write_dataset(store, ROWS, **changes)
    return store


async def check(
    dataset: Store, output: Store, spec: EvaluationResourceSpec = SPEC, *, file_bytes: int = FILE_BYTES
) -> Manifest:
    return await verify(compile_plan(spec), dataset, output, epoch(1), file_bytes=file_bytes)


def policy(**client: str) -> EvaluationResourceSpec:
    return make_spec(replications=2, client=client)


async def test_an_output_that_is_right_becomes_final(dataset: Store, output: Store) -> None:
    first = await write_part(output, SPEC, 0, ALL[:5])
    second = await write_part(output, SPEC, 1, ALL[5:])
    manifest = await check(dataset, output)
    assert manifest.rows.model_dump() == {
        "total": 12,
        "present": 12,
        "errors": 0,
        "missing": 0,
        "duplicates": 0,
    }
    assert manifest.parts == [first.name, second.name]
    assert read_rows(output, manifest) == make_expected_rows(SPEC, ROWS)
    assert await read_manifest(output) == manifest
    (entry,) = manifest.files
    data = await output.get(entry.path)
    assert (entry.size, entry.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    (source,) = manifest.inputs
    assert source.sha256 == hashlib.sha256(await dataset.get(source.path)).hexdigest()


async def test_the_columns_are_those_of_the_contract(dataset: Store, output: Store) -> None:
    await write_part(output, SPEC, 0, ALL)
    manifest = await check(dataset, output)
    with sync_reader(output, manifest.files[0].path) as reader:
        schema = pq.read_schema(reader)
    assert schema.names == ["_index_", "_replication_", "responses"]
    assert schema.field("responses").type == compile_plan(SPEC).schema.field("responses").type


async def test_a_missing_row_is_named(dataset: Store, output: Store) -> None:
    await write_part(output, SPEC, 0, [row for row in ALL if row != (1, 4)])
    with pytest.raises(EvaluationFailed, match="1 of 12 rows are missing: index 4 replication 1") as error:
        await check(dataset, output)
    assert (error.value.code, error.value.permanent, error.value.row) == ("OutputInvalid", True, "4")
    with pytest.raises(ObjectMissing):
        await read_manifest(output)


async def test_a_missing_row_may_be_ignored(dataset: Store, output: Store) -> None:
    await write_part(output, SPEC, 0, ALL[1:])
    manifest = await check(dataset, output, policy(missingOutputPolicy="Ignore"))
    assert (manifest.rows.missing, manifest.rows.present) == (1, 11)


@pytest.mark.parametrize("split", [True, False], ids=["in another part", "in the same part"])
async def test_a_doubled_row_is_left_out_named_or_kept(dataset: Store, output: Store, split: bool) -> None:
    await write_part(output, SPEC, 0, ALL if split else [*ALL, (1, 3)])
    if split:
        await write_part(output, SPEC, 1, [(1, 3)])
    with pytest.raises(EvaluationFailed, match=r"rows stand twice.*index 3 replication 1") as error:
        await check(dataset, output, policy(duplicateOutputPolicy="Error"))
    assert (error.value.code, error.value.row) == ("OutputInvalid", "3")
    other = open_store(f"memory://{secrets.token_hex(8)}")
    await copy(output, other)
    manifest = await check(dataset, other, policy(duplicateOutputPolicy="Deduplicate"))
    assert (manifest.rows.duplicates, read_rows(other, manifest)) == (1, make_expected_rows(SPEC, ROWS))
    kept = open_store(f"memory://{secrets.token_hex(8)}")
    await copy(output, kept)
    manifest = await check(dataset, kept, policy(duplicateOutputPolicy="Ignore"))
    assert (manifest.rows.duplicates, len(read_rows(kept, manifest))) == (1, 13)


async def copy(source: Store, target: Store) -> None:
    async for info in source.list(layout.PARTS):
        await target.put(info.key, await source.get(info.key))


TEXTS = pa.array([[{"_response_index_": 0, "text": 3, "score": 0.5}]])
BROKEN: list[tuple[str, dict[str, JsonValue], str]] = [
    (
        "a column too few",
        {"_index_": [0], "_replication_": ["x"]},
        r"has the columns \['_index_', '_replication_'\]",
    ),
    (
        "a type",
        {"_index_": [0], "_replication_": ["x"], "responses": TEXTS},
        "responses is list<.*the interface says",
    ),
    ("another type", {"_index_": ["0"], "_replication_": ["x"], "responses": [None]}, "_index_ is string"),
]


@pytest.mark.parametrize(
    ("columns", "message"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
async def test_a_part_of_another_schema_is_named(
    dataset: Store, output: Store, columns: dict[str, JsonValue], message: str
) -> None:
    await write_part(output, SPEC, 0, ALL)
    broken = layout.PartName(epoch(1), 0, 1)
    await output.create(broken.part, parquet(pa.table(columns)))
    with pytest.raises(EvaluationFailed, match=f"{broken.name}.*{message}"):
        await check(dataset, output)


@pytest.mark.parametrize(
    ("index", "replication", "message"),
    [
        (ROWS, "ours", "was not asked for"),
        (-1, "ours", "was not asked for"),
        (0, "another", "was not asked for"),
        (None, "ours", "without _index_"),
        (0, None, "without _index_"),
    ],
)
async def test_a_row_that_was_not_asked_for_is_named(
    dataset: Store, output: Store, index: int | None, replication: str | None, message: str
) -> None:
    await write_part(output, SPEC, 0, ALL)
    replication = compile_plan(SPEC).replications[0] if replication == "ours" else replication
    row = {"_index_": [index], "_replication_": [replication], "responses": [None]}
    strange = layout.PartName(epoch(1), 0, 1)
    await output.create(strange.part, parquet(pa.table(row, schema=compile_plan(SPEC).schema)))
    with pytest.raises(EvaluationFailed, match=f"{strange.name}.*{message}"):
        await check(dataset, output)


async def test_a_part_that_cannot_be_read_is_named(dataset: Store, output: Store) -> None:
    await output.create(layout.PartName(epoch(1), 0, 0).part, b"not Parquet")
    with pytest.raises(EvaluationFailed, match=r"000000\.parquet cannot be read"):
        await check(dataset, output)


async def test_rows_are_compacted_into_files_of_bounded_size(output: Store) -> None:
    dataset = open_store(f"memory://{secrets.token_hex(8)}/dataset")
    await write_dataset(dataset, 3000)
    spec = make_spec()
    for seq in range(30):
        await write_part(output, spec, seq, [(0, index) for index in range(100 * seq, 100 * seq + 100)])
    manifest = await check(dataset, output, spec, file_bytes=8000)
    assert [entry.path for entry in manifest.files] == [
        layout.part_file_name(n) for n in range(len(manifest.files))
    ]
    assert len(manifest.files) > 1
    assert sum(entry.rows for entry in manifest.files) == 3000
    assert read_rows(output, manifest) == make_expected_rows(spec, 3000)


async def test_files_of_an_interrupted_verification_do_not_stay(dataset: Store, output: Store) -> None:
    await output.put(layout.part_file_name(0), b"half")
    await output.put(layout.part_file_name(7), b"another")
    await write_part(output, SPEC, 0, ALL)
    await check(dataset, output)
    assert [info.key async for info in output.list("part-")] == [layout.part_file_name(0)]


async def test_a_verified_output_stays_as_it_is(dataset: Store, output: Store) -> None:
    await write_part(output, SPEC, 0, ALL)
    manifest = await check(dataset, output)
    await write_part(output, SPEC, 1, ALL)
    assert await check(dataset, output, policy(duplicateOutputPolicy="Error")) == manifest


async def test_verification_fences_the_client_off(dataset: Store, output: Store) -> None:
    client = await claim(output, epoch(3))
    await write_part(output, SPEC, 0, ALL, attempt=3)
    await check(dataset, output)
    with pytest.raises(Fenced):
        await client.check()
    await claim(output, epoch(4))


@pytest.mark.parametrize("first", [0, 1_000_000_000_000])
async def test_the_numbers_of_rows_may_begin_anywhere(output: Store, first: int) -> None:
    dataset = await make_dataset(first=first, files=2)
    spec = make_spec(client={"missingOutputPolicy": "Error"})
    with pytest.raises(
        EvaluationFailed, match=f"6 of 6 rows are missing: index {first} replication 0, index"
    ):
        await check(dataset, output, spec)


async def test_a_dataset_with_a_doubled_index_is_refused(output: Store) -> None:
    store = open_store(f"memory://{secrets.token_hex(8)}/dataset")
    await store.put("a.parquet", parquet(pa.table({"_index_": [4, 9, 4], "x": [1, 2, 3]})))
    with pytest.raises(EvaluationFailed, match="has the index 4 twice") as error:
        await check(store, output)
    assert error.value.code == "BadDataset"


ROWS_OF_PART = st.lists(st.sampled_from(ALL), max_size=8)


@settings(deadline=None)
@given(parts=st.lists(ROWS_OF_PART, max_size=4), start=st.sampled_from([0, 40]), shuffled=st.booleans())
async def test_verification_counts_every_row(
    parts: list[list[tuple[int, int]]], start: int, shuffled: bool
) -> None:
    """The manifest's counts are those of a plain count, whatever the parts hold."""
    dataset, output = (
        open_store(f"memory://{secrets.token_hex(8)}"),
        open_store(f"memory://{secrets.token_hex(8)}"),
    )
    indexes = [start + index for index in range(ROWS)]
    numbers = indexes[::-1] if shuffled else indexes
    await dataset.put("data.parquet", parquet(pa.table({"_index_": numbers, "x": numbers})))
    for seq, rows in enumerate(parts):
        await write_part(output, SPEC, seq, [(replication, start + index) for replication, index in rows])
    spec = make_spec(replications=2, client={"missingOutputPolicy": "Ignore"})
    counts = Counter(row for rows in parts for row in rows)
    manifest = await verify(compile_plan(spec), dataset, output, epoch(1))
    assert manifest.rows.present == len(counts)
    assert manifest.rows.missing == len(ALL) - len(counts)
    assert manifest.rows.duplicates == counts.total() - len(counts)
    verified = [(replication, index) for replication, index, _ in read_rows(output, manifest)]
    names = compile_plan(SPEC).replications
    assert verified == sorted((names[replication], start + index) for replication, index in counts)
    strict = [
        make_spec(replications=2, client={"missingOutputPolicy": "Error", "duplicateOutputPolicy": "Error"})
    ]
    await output.delete(layout.MANIFEST)
    if set(counts.values()) == {1} and len(counts) == len(ALL):
        assert (await verify(compile_plan(strict[0]), dataset, output, epoch(2))).rows == manifest.rows
    else:
        with pytest.raises(EvaluationFailed):
            await verify(compile_plan(strict[0]), dataset, output, epoch(2))
