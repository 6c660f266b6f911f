"""The table of values in docs/evaluation.md is true of every format of files, of requests and of templates."""

import asyncio
import csv
import json
import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard_common.errors import UsageError
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.engine.source import open_source
from steelyard_evaluation.runs.folder import RunFolder
from steelyard_evaluation.runs.prompts.inputs import open_rows, write_dataset
from steelyard_evaluation.runs.prompts.template import Template, check_texts
from steelyard_evaluation.runs.request import SourceSpec
from steelyard_evaluation.storage.files import FileStore
from tests.answers.page import DOCS

PAGE = (DOCS / "evaluation.md").read_text(encoding="utf-8")
SUFFIXES = {"JSON lines": ".jsonl", "JSON": ".json", "CSV": ".csv", "Parquet": ".parquet", "Arrow": ".arrow"}
KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "int64": (pa.int64(), int),
    "uint64": (pa.uint64(), int),
    "double": (pa.float64(), float),
    "float": (pa.float32(), float),
    "bool": (pa.bool_(), "true".__eq__),
    "decimal128(5, 2)": (pa.decimal128(5, 2), Decimal),
    "date32[day]": (pa.date32(), date.fromisoformat),
    "timestamp[us]": (pa.timestamp("us"), datetime.fromisoformat),
    "binary": (pa.binary(), str.encode),
}


def _cases() -> Iterator[Any]:
    section = PAGE.split("\n### Values of columns\n")[1].split("\n### ")[0]
    for line in re.findall(r"^\| (.+) \|$", section, re.M)[1:]:
        files, *cells = line.split(" | ")
        names, _, kind = files.partition(": ")
        for name in names.split(", "):
            texts = [re.findall(r"`(.*?)`(?= |$)", cell) for cell in cells]
            yield pytest.param(name, kind, *texts, id=f"{files} as {name}: {cells[0]}")


def _write(path: Path, kind: str, values: list[str]) -> None:
    match path.suffix:
        case ".jsonl":
            path.write_text("".join(f'{{"a": {value}}}\n' for value in values), encoding="utf-8")
        case ".json":
            path.write_text("[" + ", ".join(f'{{"a": {value}}}' for value in values) + "]", encoding="utf-8")
        case ".csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([["a"], *([value] for value in values)])
        case suffix:
            arrow, make = KINDS[kind]
            table = pa.table({"a": pa.array([None if v == "null" else make(v) for v in values], arrow)})
            if suffix == ".parquet":
                pq.write_table(table, path)
            else:
                with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                    writer.write_table(table)


def _dataset(path: Path, folder: Path) -> None:
    """Write the rows of a file as a run keeps them."""
    source = SourceSpec(str(path))
    write_dataset(open_rows(source), source, RunFolder(folder)).rename(folder / "data.parquet")


def _sent(folder: Path) -> list[str]:
    source = asyncio.run(open_source(FileStore(folder)))
    rows = [row.data["a"] for rows in source.read() for row in rows]
    return [orjson.dumps(row, default=str).decode() for row in rows]


@pytest.mark.parametrize(("file", "kind", "values", "sent", "printed"), list(_cases()))
def test_the_value_in_the_file_is_the_value_that_is_sent(
    file: str, kind: str, values: list[str], sent: list[str], printed: list[str], tmp_path: Path
) -> None:
    path = tmp_path / f"a{SUFFIXES[file]}"
    _write(path, kind, values)
    _dataset(path, tmp_path / "dataset")
    assert [
        json.dumps(orjson.loads(text), ensure_ascii=False) for text in _sent(tmp_path / "dataset")
    ] == sent
    table = pq.read_table(tmp_path / "dataset/data.parquet")
    if not printed:
        columns = {field.name: field.type for field in table.schema}
        with pytest.raises(
            UsageError, match=r"p, line 2: the column 'a' of f is of type binary; bytes have no text"
        ):
            check_texts("\n{{ a }}", "p", 1, columns, "f")
        return
    # In this process, and in one of its own.
    for template in (Template("{{ a }}"), Template("{{ a }}{{ '' * 2 }}")):
        assert [template(row) for row in to_rows(table)] == printed
