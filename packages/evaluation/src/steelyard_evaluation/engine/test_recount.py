"""A manifest is counted again: dropped, doubled and strange rows are found whatever it says."""

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.doubles import epoch, make_spec, write_dataset, write_part
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.manifest import Manifest
from steelyard_evaluation.engine.plan import compile_plan
from steelyard_evaluation.engine.recount import recount
from steelyard_evaluation.engine.verify import verify
from steelyard_evaluation.storage.checked import add_digest
from steelyard_evaluation.storage.files import FileStore
from steelyard_evaluation.storage.store import Store

SPEC = make_spec(replications=2)
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
async def stores(tmp_path: Path) -> tuple[Store, Store]:
    """A dataset of 6 rows, asked twice, and its verified output."""
    dataset, output = FileStore(tmp_path / "inputs"), FileStore(tmp_path / "outputs")
    await write_dataset(dataset, 6)
    rows = [(replication, row) for replication in range(2) for row in range(6)]
    await write_part(output, SPEC, 0, rows)
    await verify(compile_plan(SPEC), dataset, output, epoch(1))
    return dataset, output


async def rewrite(store: Store, key: str, change: Callable[[pa.Table], pa.Table]) -> dict[str, Any]:
    """Change a Parquet file, and describe it as a manifest does."""
    table = change(pq.read_table(io.BytesIO(await store.get(key))))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    await store.put(key, sink.getvalue())
    digest = hashlib.sha256(sink.getvalue()).hexdigest()
    return {"path": key, "size": len(sink.getvalue()), "sha256": digest, "rows": table.num_rows}


async def faults(stores: tuple[Store, Store], edit: Edit = lambda manifest: None) -> str:
    """Return the faults of an output whose manifest was edited, and digested again."""
    content = orjson.loads(await stores[1].get(layout.MANIFEST))
    edit(content)
    return "\n".join((await recount(Manifest.model_validate(content), *stores)).faults)


async def test_an_untouched_output_is_what_its_manifest_says(stores: tuple[Store, Store]) -> None:
    counted = await recount(Manifest.model_validate_json(await stores[1].get(layout.MANIFEST)), *stores)
    assert (counted.faults, counted.questions) == ((), 6)
    assert counted.rows.model_dump() == {
        "total": 12, "present": 12, "errors": 0, "missing": 0, "duplicates": 0
    }  # fmt: skip


async def test_dropped_rows_are_found_whatever_the_manifest_says(stores: tuple[Store, Store]) -> None:
    entry = await rewrite(stores[1], "part-00000.parquet", lambda table: table.slice(0, 10))

    def edited(manifest: dict[str, Any]) -> None:
        manifest["files"] = [entry]
        manifest["rows"] |= {"total": 10, "present": 10}

    said = await faults(stores, edited)
    assert "the dataset has 6 rows, asked 2 times each, which is 12 rows in all; the manifest says 10" in said
    assert "2 rows are missing; the manifest says 0" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda table: pa.concat_tables([table, table.slice(0, 1)]),
            "1 rows stand twice; the manifest says 0",
        ),
        (
            lambda table: table.set_column(0, "_index_", pa.array([9, *table["_index_"].to_pylist()[1:]])),
            r"part-00000.parquet: the row 9 of replication",
        ),
        (
            lambda table: table.set_column(
                2, "responses", pa.array([None, *table["responses"].to_pylist()[1:]], table["responses"].type)
            ),
            "1 rows have no answer; the manifest says 0",
        ),
        (lambda table: table.drop_columns(["responses"]), "should have the columns"),
    ],
    ids=["a doubled row", "a row that was not asked", "an answer taken out", "a column taken out"],
)
async def test_changed_rows_are_found(
    stores: tuple[Store, Store], change: Callable[[pa.Table], pa.Table], said: str
) -> None:
    entry = await rewrite(stores[1], "part-00000.parquet", change)
    try:
        message = await faults(stores, lambda manifest: manifest.update(files=[entry]))
    except EvaluationFailed as error:
        message = error.message
    assert said in message


async def test_files_that_the_manifest_does_not_name_are_found(stores: tuple[Store, Store]) -> None:
    for store, key in ((stores[0], "more.parquet"), (stores[1], "part-00007.parquet")):
        await store.put(key, b"rows")
    counted = await recount(Manifest.model_validate_json(await stores[1].get(layout.MANIFEST)), *stores)
    assert counted.faults == ("the dataset has the file more.parquet, which the manifest does not name",)
    assert counted.stray == ("part-00007.parquet",)


async def test_the_record_of_the_run_outranks_the_manifest(stores: tuple[Store, Store]) -> None:
    """Half of the replications taken out of files and manifest alike."""
    first = orjson.loads(await stores[1].get(layout.MANIFEST))["replications"][0]
    run = {"identity": {"replications": 2, "inputs": [{"path": "other.parquet"}]}}
    await stores[1].put(layout.RUN, orjson.dumps(add_digest(run)))
    entry = await rewrite(
        stores[1],
        "part-00000.parquet",
        lambda table: table.filter(pc.equal(table["_replication_"], first)),
    )

    def edited(manifest: dict[str, Any]) -> None:
        manifest |= {"replications": [first], "files": [entry]}
        manifest["rows"] |= {"total": 6, "present": 6}

    assert (await faults(stores, edited)).splitlines() == [
        ".steelyard/run.json says that each row was asked 2 times; the manifest says 1",
        ".steelyard/run.json names other files of the dataset than the manifest",
    ]


async def test_a_second_verification_counts_again(stores: tuple[Store, Store]) -> None:
    await rewrite(stores[1], "part-00000.parquet", lambda table: table.slice(0, 10))
    with pytest.raises(EvaluationFailed, match="holds 10 rows; the manifest says 12"):
        await verify(compile_plan(SPEC), *stores, epoch(2))
