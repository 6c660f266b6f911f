"""Rows that no answer could mend are named when a report, an audit procedure or an evaluation is created."""

import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.api.datasets import row_faults
from steelyard.api.datasets.columns import read_columns
from steelyard_common.types import Json, JsonValue
from steelyard_evaluation.runs.test_possible_answers import UNUSABLE
from steelyard_schema.dataset import Dataset
from tests.platform_api.memory_platform import MemoryPlatform, grant
from tests.platform_api.test_columns import an_evaluation
from tests.platform_api.test_croissant import parquet

USABLE: dict[str, JsonValue] = {"target": "A", "choices": ["x", "y"], "schema": "{}"}
CASES = [(name + query, row, fault) for name, cases in UNUSABLE.items() for query, row, fault in cases]
OPTIONS: dict[str, JsonValue] = {"target": "A", "choices": [str(number) for number in range(27)]}
LETTERS = (
    "choice.MultipleChoice",
    OPTIONS,
    "has 27 options in the column 'choices'; there are letters for 26",
)
EMPTY = ("text.ExactMatch", {"target": " "}, "the column 'target' of dataset [0-9a-f]+ is empty in every row")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the judge of rows: on a busy machine it may take longer than a request waits for it."""
    monkeypatch.setattr(row_faults, "_SECONDS", 300.0)


def table(*rows: dict[str, Any], first: int = 1) -> pa.Table:
    return pa.Table.from_pylist([{"_index_": first + number, **row} for number, row in enumerate(rows)])


async def a_report(platform: MemoryPlatform, rows: pa.Table | bytes, rubric: str, **more: Any) -> Json:
    body = await an_evaluation(platform, rows)
    evaluation = (await platform.admin.post("/evaluations", json=body)).json()
    return {"account": "acme", "rubric": rubric, "evaluation": evaluation["id"], **more}


@pytest.mark.parametrize(("rubric", "row", "fault"), [*CASES, LETTERS, EMPTY])
async def test_a_row_that_no_answer_could_mend_is_named_as_on_the_command_line(
    platform: MemoryPlatform, rubric: str, row: dict[str, JsonValue], fault: str
) -> None:
    usable = USABLE if "?most" not in rubric else {}  # without options in the row, there are letters
    request = await a_report(platform, table({**usable, **row}), rubric)
    answer = await platform.admin.post("/reports", json=request)
    assert (answer.status_code, answer.json()["field"]) == (422, "rubric"), answer.text
    said = answer.json()["detail"]
    assert re.match(rf"rubric: {re.escape(rubric)}, dataset [0-9a-f]+: (row 1 )?.*{fault}", said)


async def test_procedures_name_it_too_and_rows_that_can_be_scored_are_taken(platform: MemoryPlatform) -> None:
    body = await an_evaluation(platform, table({"target": "none"}))
    requirements = [{"dataset": body["dataset"], "rubric": "close"}]
    request = {"account": "acme", "name": "p", "requirements": requirements}
    for _ in range(2):  # the second time it is remembered
        answer = await platform.admin.post("/auditprocedures", json=request)
        assert (answer.status_code, answer.json()["field"]) == (422, "requirements.0.rubric")
        assert "row 1 of the dataset has the target 'none', which holds no number" in answer.json()["detail"]
    for rubric in ("exact-match", "multiple-choice?most=4", "a.RubricOfAnImage"):
        request = await a_report(platform, table(USABLE, {**USABLE, "target": "B"}), rubric)
        answer = await platform.admin.post("/reports", json=request)
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("numbers", "fault"),
    [([0, 3, 3], "two rows have the _index_ 3"), ([0, -3, 3], "_index_ must hold a whole number from 0")],
    ids=str,
)
async def test_numbers_of_rows_that_an_evaluation_could_not_take_are_named(
    platform: MemoryPlatform, numbers: list[int], fault: str
) -> None:
    rows = pa.table({"_index_": pa.array(numbers, pa.int64()), "prompt": ["a", "b", "c"]})
    answer = await platform.admin.post("/evaluations", json=await an_evaluation(platform, rows))
    assert (answer.status_code, answer.json()["field"]) == (422, "dataset")
    assert fault in answer.json()["detail"]


async def test_a_view_changes_the_rows_and_values_are_for_those_who_may_read_them(
    platform: MemoryPlatform,
) -> None:
    request = await a_report(platform, table({"target": "none"}), "numeric.Close")
    view = {"id": "v", "viewOf": "d", "schema": {"arrowSchema": ""}}
    stranger = await platform.holder(
        grant("reports", ["*"], ["acme"]),
        grant("evaluations", ["get", "consume"], ["acme"]),
        grant("datasets", ["get", "consume"], ["acme"]),
    )
    for client, more in ((platform.admin, {"datasetView": view}), (stranger, {})):
        answer = await client.post("/reports", json={**request, **more})
        assert answer.status_code == 200, answer.text


def damaged(rows: pa.Table) -> bytes:
    """The file with its footer, and nothing where its rows were."""
    content = parquet(rows)
    length = int.from_bytes(content[-8:-4], "little")
    return b"PAR1" + b"\xff" * (len(content) - length - 12) + content[-8 - length :]


def expanding() -> bytes:
    """A small file with a text that its readers take for too long."""
    rows = pa.table({"_index_": pa.array([0], pa.int64()), "target": ["0" * (65 << 20)]})
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", write_statistics=False)
    return bytes(sink.getvalue())


def costly() -> bytes:
    """Schemas that take more memory than there is for one dataset."""
    schema = '{"enum": [' + ",".join(['{"a":[1]}'] * 300_000) + "]}"
    rows = pa.table({"_index_": pa.array(range(64), pa.int64()), "schema": [schema] * 64})
    return parquet(rows)


async def test_what_cannot_be_read_within_the_limits_is_left_to_the_step(platform: MemoryPlatform) -> None:
    cases = ((damaged(table({"target": "none"})), "close"), (expanding(), "close"), (costly(), "json-schema"))
    for content, rubric in cases:
        request = await a_report(platform, content, rubric)
        answer = await platform.admin.post("/reports", json=request)
        assert answer.status_code == 200, answer.text


async def test_no_more_than_the_columns_in_question_is_read(platform: MemoryPlatform) -> None:
    rows = table(*({"target": f"{number}", "image": bytes([number]) * 5000} for number in range(100)))
    body = await an_evaluation(platform, rows)
    entity = Dataset.parse((await platform.admin.get(f"/datasets/{body['dataset']}")).json())
    store = platform.engines.store
    files = await read_columns(store, entity, {"_index_", "target"}, 10_000)
    assert files is not None
    assert len(files) == 1
    assert 0 < sum(map(len, files[0].pieces.values())) < 10_000
    assert await read_columns(store, entity, {"_index_", "target", "image"}, 10_000) is None
    assert await read_columns(store, entity, {"_index_", "target"}, 100) is None
