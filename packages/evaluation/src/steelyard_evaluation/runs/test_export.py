"""A file of `eval export` read again as prompts: its values are those that the run was asked."""

import itertools
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from steelyard_evaluation.engine.csv_lines import csv_batches, csv_schema
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.runs.doubles import endpoint, make_request, write_prompts
from steelyard_evaluation.runs.export import export
from steelyard_evaluation.runs.folder import open_run
from steelyard_evaluation.runs.request import RubricSpec
from steelyard_evaluation.runs.run import run

VALUES: dict[str, list[Any]] = {
    "booleans": [True, False],
    "small fractions": [1e-7, 0.5],
    "the least fractions": [5e-324, -2.2250738585072014e-308],
    "great fractions": [1e22, -1.7976931348623157e308],
    "whole fractions": [3.0, 0.1],
    "whole numbers": [2**63 - 1, -7],
    "texts": ["1e-07", "True"],
    "values and nothing": [True, None],
    "fractions and nothing": [1e-7, None],
}


async def exported(tmp_path: Path, values: list[Any]) -> list[dict[str, Any]]:
    prompts = write_prompts(
        tmp_path / "p.parquet",
        [{"prompt": f"say {n}", "value": value, "target": "0"} for n, value in enumerate(values)],
    )
    async with endpoint() as server:
        request = make_request(prompts, server.url, rubrics=(RubricSpec("exact-match"),))
        await run(request, tmp_path / "run")
    export(open_run(tmp_path / "run"), path := tmp_path / "rows.csv")
    schema, _ = csv_schema(path)
    return [*itertools.chain.from_iterable(map(to_rows, csv_batches(path, schema)))]


@pytest.mark.parametrize("name", VALUES)
async def test_a_value_is_read_back_with_its_type(name: str, tmp_path: Path) -> None:
    rows = await exported(tmp_path, VALUES[name])
    assert [(type(row["row.value"]), row["row.value"]) for row in rows] == [
        (type(value), value) for value in VALUES[name]
    ]
    assert {type(row["scores.correct"]) for row in rows} == {bool}


async def test_a_date_is_read_back_as_its_text(tmp_path: Path) -> None:
    (row,) = await exported(tmp_path, [date(2024, 5, 1)])
    assert row["row.value"] == "2024-05-01"
