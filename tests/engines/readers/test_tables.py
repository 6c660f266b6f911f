"""DuckDB reads datasets, answers and scores, from downloaded files and from signed URLs, with the same counts."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from steelyard.local.state import read_ready
from tests.engines.readers.conftest import ROWS, Running
from tests.engines.readers.programs import AGES, ask


def counts(age: str, table: str) -> list[Any]:
    """Return how many rows a table has, and how many numbers of rows."""
    (row,) = ask("duckdb", age, f'SELECT count(*), count(DISTINCT "_index_") FROM {table}')
    return list(row)


@pytest.mark.parametrize("age", AGES)
def test_downloaded_files_have_the_same_rows(running: Running, age: str, tmp_path: Path) -> None:
    running.client.datasets.download(running.made.dataset, tmp_path / "dataset")
    running.client.evaluations.download(running.made.evaluation, tmp_path / "answers")
    running.client.reports.download(running.made.report, tmp_path / "report")
    for folder in ("dataset", "answers"):
        assert counts(age, f"read_parquet('{tmp_path}/{folder}/**/*.parquet')") == [ROWS, ROWS], folder
    scores = f"read_parquet('{tmp_path}/report/scores.parquet')"
    assert counts(age, scores) == [ROWS, ROWS]
    numbers = json.loads((tmp_path / "report" / "report.json").read_text())
    (mean,) = (metric["value"] for metric in numbers["metrics"] if metric["name"] == "accuracy")
    assert ask("duckdb", age, f"SELECT avg(correct::INTEGER) FROM {scores}") == [[mean]]
    # Answers are lists of objects.
    joined = (
        f"SELECT count(*) FROM read_parquet('{tmp_path}/dataset/*.parquet') AS asked "
        f"JOIN (SELECT _index_, unnest(responses) AS answer FROM read_parquet('{tmp_path}/answers/**/*.parquet')) "
        "USING (_index_) WHERE answer.label = asked.label"
    )
    assert ask("duckdb", age, joined) == [[ROWS]]


@pytest.mark.parametrize("age", AGES)
def test_signed_urls_are_read_without_a_download(running: Running, age: str) -> None:
    ready = read_ready(running.machine.state)
    assert ready is not None
    address = f"{ready.api}/datasets/{running.made.dataset}/downlinks"
    (link,) = httpx.get(address, headers={"Authorization": f"Bearer {ready.token}"}).json()
    assert counts(age, f"read_parquet('{link['signedURL']['url']}')") == [ROWS, ROWS]
