"""Columns that a rubric or an input pipeline reads are checked when an evaluation or a report is created."""

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from steelyard.api.datasets import columns
from steelyard.api.reports.rubric_columns import read_rubric_columns
from steelyard_common.types import Json
from steelyard_evaluation.report.rubrics import alias, find_rubric
from steelyard_schema.columns import missing
from tests.answers.test_guards import EXAMPLES
from tests.platform_api.memory_platform import MemoryPlatform, grant, service
from tests.platform_api.test_croissant import parquet, uploaded

ROWS = pa.table({"_index_": pa.array([0], pa.int64()), "prompt": ["a"], " target": ["b"]})
NESTED = pa.table(
    {
        "first": pa.array([{"a": 1, "b": [{"c": "x"}]}]),
        "_index_": pa.array([0], pa.int32()),
        "é": pa.array([[1.5]]),
        "last": ["x"],
    }
)


def footer(table: pa.Table) -> bytes:
    content = parquet(table)
    return content[-8 - int.from_bytes(content[-8:-4], "little") : -8]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.rubric)
def test_the_table_has_the_columns_that_each_rubric_reads(example: Any) -> None:
    reference = example.rubric
    name, mark, query = reference.partition("?")
    assert read_rubric_columns(reference) == tuple(find_rubric(reference).columns)
    assert read_rubric_columns(f"{alias(name)}{mark}{query}") == read_rubric_columns(reference)
    argument = "column" if name == "structure.JsonSchema" else "target"
    other = f"{reference}{'&' if mark else '?'}{argument}=x%7Cy"
    if name != "lm_eval.Task":
        assert read_rubric_columns(other) == tuple(find_rubric(other).columns)


@pytest.mark.parametrize("table", [ROWS, NESTED], ids=["plain", "nested"])
def test_the_columns_are_read_of_the_footer(table: pa.Table) -> None:
    wanted = {field.name: pa.types.is_integer(field.type) for field in table.schema}
    assert columns._columns(footer(table)) == wanted


def test_a_damaged_footer_has_no_known_columns_and_raises_nothing() -> None:
    whole, rng = footer(NESTED), random.Random(7)
    for _ in range(3000):
        damaged = bytearray(whole[: rng.randrange(len(whole) + 1)])
        for _ in range(rng.randrange(4)):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        columns._columns(bytes(damaged))


async def an_evaluation(platform: MemoryPlatform, rows: pa.Table | bytes, **client: Any) -> Json:
    """The body of a request for an evaluation of a dataset with these rows."""
    data = await uploaded(platform, {"data.parquet": rows if isinstance(rows, bytes) else parquet(rows)})
    model = await platform.created("inferenceservices", **service())
    session = {"inferenceService": model["id"]}
    return {"account": "acme", "dataset": data["id"], "inferenceSession": session, "client": client}


def reading(kind: str, configuration: Json) -> Json:
    return {"inputPipeline": [{"kind": kind, "configuration": configuration}]}


PIPELINES: dict[str, Json] = {
    "selected": reading("Select", {"fields": ["prompt", "target"]}),
    "renamed": reading("Rename", {"target": "answer"}),
    "exploded": reading("ExplodeCollections", {"collections": ["target"]}),
    "mapped": reading("Map", {"collections": ["target"], "adapter": {"kind": "Drop"}}),
    "in a template": reading("TransformJSON", {"messages": [{"role": "user", "content": "$.target"}]}),
    "deep in a template": reading("TransformJSON", {"text": "$.target[0].text"}),
}
FINE: dict[str, Json] = {
    "all there": reading("Select", {"fields": ["prompt", " target"]}),
    "in a template": reading("TransformJSON", {"text": "$.prompt", "cost": "$$.target"}),
    "one of two": reading("TransformJSON", {"text": "$.target|$.prompt"}),
    "computed": reading("TransformJSON", {"text": {"$compute": [{"$list": "$.target"}]}}),
    "left out if it is there": reading("Drop", {"fields": ["target"]}),
    "made by the adapter before": {
        "inputPipeline": [
            {"kind": "Rename", "configuration": {"prompt": "target"}},
            {"kind": "Select", "configuration": {"fields": ["target"]}},
        ]
    },
}


@pytest.mark.parametrize("name", PIPELINES)
async def test_a_column_that_the_input_pipeline_lacks_is_named(platform: MemoryPlatform, name: str) -> None:
    body = await an_evaluation(platform, ROWS, **PIPELINES[name])
    answer = await platform.admin.post("/evaluations", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, "client.inputPipeline.0")
    assert "the input pipeline reads the column 'target', which dataset" in answer.json()["detail"]
    assert answer.json()["detail"].endswith("it has prompt,  target; did you mean ' target'?")


@pytest.mark.parametrize("name", FINE)
async def test_an_input_pipeline_that_may_fit_is_taken(platform: MemoryPlatform, name: str) -> None:
    body = await an_evaluation(platform, ROWS, **FINE[name])
    answer = await platform.admin.post("/evaluations", json=body)
    assert answer.status_code == 200, answer.text


INDEXES: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "missing": (lambda rows: rows.drop_columns(["_index_"]), "has no column '_index_'"),
    "a text": (lambda rows: rows.set_column(0, "_index_", pa.array(["0"])), "must hold a whole number"),
    "a float": (lambda rows: rows.set_column(0, "_index_", pa.array([0.0])), "must hold a whole number"),
}


@pytest.mark.parametrize("name", INDEXES)
async def test_rows_without_numbers_are_refused(platform: MemoryPlatform, name: str) -> None:
    change, fault = INDEXES[name]
    answer = await platform.admin.post("/evaluations", json=await an_evaluation(platform, change(ROWS)))
    assert (answer.status_code, answer.json()["field"]) == (422, "dataset")
    assert fault in answer.json()["detail"]


@pytest.mark.parametrize("rubric", ["text.ExactMatch", "exact-match", "multiple-choice", "close?rel=0.1"])
async def test_a_column_that_the_rubric_lacks_is_named_as_on_the_command_line(
    platform: MemoryPlatform, rubric: str
) -> None:
    body = await an_evaluation(platform, ROWS)
    evaluation = (await platform.admin.post("/evaluations", json=body)).json()
    request = {"account": "acme", "rubric": rubric, "evaluation": evaluation["id"]}
    answer = await platform.admin.post("/reports", json=request)
    assert (answer.status_code, answer.json()["field"]) == (422, "rubric")
    said = missing("target|answer|label", ROWS.schema.names, f"dataset {body['dataset']}")
    assert answer.json()["detail"] == f"rubric: {rubric} {said}"
    requirements = [{"dataset": body["dataset"], "rubric": rubric}]
    procedure = {"account": "acme", "name": "p", "requirements": requirements}
    answer = await platform.admin.post("/auditprocedures", json=procedure)
    assert (answer.status_code, answer.json()["field"]) == (422, "requirements.0.rubric")
    target = "_index_" if rubric.startswith("close") else " target"  # whose text is no number
    for fine in (f"{rubric}{'&' if '?' in rubric else '?'}target={target}", "a.RubricOfAnImage"):
        await platform.created("reports", rubric=fine, evaluation=evaluation["id"])


async def test_what_is_not_known_or_may_not_be_told_is_left_to_the_step(platform: MemoryPlatform) -> None:
    for rows in (b"no Parquet", b"PAR1" + bytes(100) + b"PAR1", parquet(ROWS)[:-9] + b"PAR1"):
        body = await an_evaluation(platform, rows)
        evaluation = (await platform.admin.post("/evaluations", json=body)).json()
        await platform.created("reports", rubric="text.ExactMatch", evaluation=evaluation["id"])
    body = await an_evaluation(platform, ROWS)
    evaluation = (await platform.admin.post("/evaluations", json=body)).json()
    stranger = await platform.holder(
        grant("reports", ["*"], ["acme"]), grant("evaluations", ["get", "consume"], ["acme"])
    )
    request = {"account": "acme", "rubric": "text.ExactMatch", "evaluation": evaluation["id"]}
    assert (await stranger.post("/reports", json=request)).status_code == 200
