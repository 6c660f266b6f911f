"""Every data file of the corpus gives the same rows, or the same plain line, whichever way it comes in."""

import hashlib
import io
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard.cli.transfer import check_tables
from steelyard.steps.common import Log, StepFailed
from steelyard.steps.ingest_dataset import ingest
from steelyard_common.bounded_parquet import read_table
from steelyard_common.errors import UsageError
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.runs.prompts.inputs import open_rows, select_batches
from steelyard_evaluation.runs.request import SourceSpec
from steelyard_evaluation.storage.staging import Area, ExpectedFile, finalise
from steelyard_evaluation.storage.store import open_store
from steelyard_schema.resources import DatasetResourceSpec
from steelyard_schema.steps import SourceLimits
from tests.answers.data_files import BAD, GOOD, Rows
from tests.answers.page import DOCS


async def _uploaded(folder: Path, name: str, content: bytes) -> Rows:
    store, area = open_store(f"file://{folder}"), Area("b1", "0")
    await store.put(area.key(name), content)
    await finalise(store, area, [ExpectedFile(name)], "source")
    return await _made(folder)


async def _fetched(folder: Path, name: str, content: bytes) -> Rows:
    path = folder / "source" / name
    (folder / "source/.steelyard").mkdir(parents=True)
    path.write_bytes(content)
    file = {"path": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest = {"source": {"kind": "zenodo", "record": "7"}, "files": [file]}
    (folder / "source/.steelyard/manifest.json").write_text(json.dumps(manifest))
    return await _made(folder)


async def _made(folder: Path) -> Rows:
    """Make a dataset of the data source in a folder, and return its rows."""
    spec = DatasetResourceSpec.parse(
        {
            "id": "a1",
            "account": "acme",
            "name": "rows",
            "dataSource": "b1",
            "artifacts": [{"kind": "parquet", "path": "data.parquet"}],
            "schema": {"arrowSchema": ""},
            "storage": {"inputs": {"source": f"file://{folder}/source"}, "output": f"file://{folder}/out"},
        }
    )
    await ingest(spec, Log("t", io.StringIO()), SourceLimits())
    return to_rows(read_table(folder / "out/data.parquet"))


async def _asked(folder: Path, name: str, content: bytes) -> Rows:
    (folder / name).write_bytes(content)
    source = SourceSpec(str(folder / name))
    return [row for batch in select_batches(open_rows(source), source) for row in to_rows(batch)]


WAYS: dict[str, Callable[[Path, str, bytes], Awaitable[Rows]]] = {
    "upload": _uploaded,
    "fetch": _fetched,
    "eval-run": _asked,
}


@pytest.mark.parametrize("file", GOOD)
async def test_every_way_has_the_same_rows(tmp_path: Path, file: str) -> None:
    name, content, rows = GOOD[file]
    for way, read in WAYS.items():
        (tmp_path / way).mkdir()
        read_rows = await read(tmp_path / way, name, content)
        numbered = [{"_index_": number, **row} for number, row in enumerate(rows)]
        assert _typed(read_rows) == _typed(numbered), way


@pytest.mark.parametrize("file", [file for file, (name, *_) in BAD.items() if name.endswith(".parquet")])
def test_an_upload_of_a_dataset_has_the_same_refusal(tmp_path: Path, file: str) -> None:
    name, content, pattern = BAD[file]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=rf"^upload .*{re.escape(name)}: .*{pattern}"):
        check_tables(tmp_path, [tmp_path / name])


def test_an_upload_without_parquet_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"x\n1\n")
    with pytest.raises(UsageError, match=r"no .parquet file in it; CSV, .* steelyard upload datasource"):
        check_tables(tmp_path, [tmp_path / "a.csv"])


def _typed(rows: Rows) -> list[Any]:
    """Return the rows with the types of their values: 1, 1.0 and True are equal to Python."""
    return [{name: repr(value) for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("file", BAD)
async def test_every_way_has_the_same_refusal(tmp_path: Path, file: str) -> None:
    name, content, pattern = BAD[file]
    said = set()
    for way, read in WAYS.items():
        (tmp_path / way).mkdir()
        with pytest.raises((StepFailed, UsageError)) as refusal:
            await read(tmp_path / way, name, content)
        said.add(str(refusal.value).replace(str(tmp_path / way / name), name))
    assert len(said) == 1, said
    (line,) = said
    assert re.match(rf"{re.escape(name)}: {pattern}|{re.escape(name)}: .*{pattern}", line), line
    assert line.isprintable(), "control characters reach no terminal"
    assert not re.search(r"pyarrow|Arrow(Invalid|Exception)|Traceback|CSV parse error", line)


def test_the_worked_example_of_the_page_is_true(tmp_path: Path) -> None:
    page = (DOCS / "data-sources.md").read_text(encoding="utf-8").split("### What becomes a number")[1]
    (tmp_path / "a.csv").write_text(page.split("```\n")[1], encoding="utf-8")
    rows = to_rows(next(open_rows(SourceSpec(str(tmp_path / "a.csv"))).batches()))
    assert [list(row.values()) for row in rows] == [
        ["3.9", 10, 0.5, "007", True, "2024-05-01", ""],
        ["3.10", 20, 1, "010", False, "2024-06-01", "late"],
    ]
