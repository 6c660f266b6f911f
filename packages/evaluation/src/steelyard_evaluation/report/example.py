"""A small verified evaluation, made without running one. Tests of reports and of their readers use it."""

import hashlib
import io
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.manifest import FileEntry, Manifest, RowCounts
from steelyard_evaluation.storage.store import Store

_RESPONSE: list[tuple[str, pa.DataType]] = [
    ("_response_index_", pa.int64()),
    ("label", pa.string()),
    ("probabilities", pa.map_(pa.string(), pa.float64())),
]
_OUTPUT: list[tuple[str, pa.DataType]] = [
    ("_index_", pa.int64()),
    ("_replication_", pa.string()),
    ("responses", pa.list_(pa.struct(_RESPONSE))),
]
OUTPUT = pa.schema(_OUTPUT)
CREATED = "2026-11-21T06:15:00+00:00"


def make_questions(count: int = 40) -> list[dict[str, Any]]:
    """Return rows of a dataset with three classes, a text and a picture of 4 x 4."""
    return [
        {
            "_index_": index,
            "label": "abc"[index % 3],
            "text": f"question <{index}> & more",
            "image": [float((index + k) % 7) for k in range(16)],
        }
        for index in range(count)
    ]


def make_outputs(questions: Sequence[dict[str, Any]], replications: Sequence[str]) -> list[dict[str, Any]]:
    """Return outputs; every 7th is wrong, and that of the 10th question is missing."""
    rows = []
    for replication in replications:
        for question in questions:
            index = question["_index_"]
            label = "abc"[(index + 1) % 3] if index % 7 == 3 else question["label"]
            shares = {name: 0.8 if name == label else 0.1 for name in "abc"}
            answer = {"_response_index_": 0, "label": label, "probabilities": shares}
            responses = None if index == 9 else [answer]
            rows.append({"_index_": index, "_replication_": replication, "responses": responses})
    return rows


async def make_verified(
    dataset: Store,
    output: Store,
    *,
    questions: Sequence[dict[str, Any]] | None = None,
    outputs: Sequence[dict[str, Any]] | None = None,
    replications: Sequence[str] = ("a" * 32, "b" * 32),
    schema: pa.Schema = OUTPUT,
) -> Manifest:
    """Write a dataset and its verified outputs, in two files, and the manifest; return the manifest."""
    question_rows = list(questions if questions is not None else make_questions())
    output_rows = list(outputs if outputs is not None else make_outputs(question_rows, replications))
    replications = list(dict.fromkeys(row["_replication_"] for row in output_rows))
    inputs = [await _write(dataset, "part-0.parquet", pa.Table.from_pylist(question_rows))]
    half = len(output_rows) // 2
    files = [
        await _write(output, layout.part_file_name(number), pa.Table.from_pylist(rows, schema))
        for number, rows in enumerate((output_rows[:half], output_rows[half:]))
    ]
    errors = sum(row["responses"] is None for row in output_rows)
    total = len(question_rows) * len(replications)
    counts = RowCounts(
        total=total, present=len(output_rows), errors=errors, missing=total - len(output_rows), duplicates=0
    )
    manifest = Manifest(
        evaluation="e" * 32,
        replications=replications,
        inputs=inputs,
        files=files,
        rows=counts,
        parts=[],
        leftOut=[],
    )
    run = {
        "schemaVersion": "0.1",
        "created": CREATED,
        "settings": {"batchSize": 1000},
        "environment": {"python": "3.11"},
    }
    await output.put(layout.RUN, orjson.dumps(run))
    await output.put(layout.MANIFEST, manifest.model_dump_json().encode())
    return manifest


async def _write(store: Store, key: str, table: pa.Table) -> FileEntry:
    sink = io.BytesIO()
    # Several row groups, but not hundreds of a long table: each costs every reader a millisecond.
    pq.write_table(table, sink, row_group_size=max(16, table.num_rows // 4))
    data = sink.getvalue()
    await store.put(key, data)
    digest = hashlib.sha256(data).hexdigest()
    return FileEntry(path=key, size=len(data), sha256=digest, rows=table.num_rows)
