"""Every format gives the same rows; which rows are asked is a matter of numbers; faults name file, line and column."""

import csv
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import UsageError
from steelyard.runs.folder import RunFolder
from steelyard.runs.prompts.inputs import open_rows, selected_batches, selected_numbers, write_dataset
from steelyard.runs.request import SourceSpec

ROWS = [{"question": f'What is\n{number}, "{number}"?', "answer": f"0{number}"} for number in range(9)]


def write(path: Path) -> Path:
    table = pa.Table.from_pylist(ROWS)
    match path.suffix:
        case ".parquet":
            pq.write_table(table, path, row_group_size=2)
        case ".arrow":
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table, max_chunksize=2)
        case ".feather":
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table, max_chunksize=2)
        case ".jsonl":
            path.write_bytes(b"\n".join(map(orjson.dumps, ROWS)) + b"\n\n")
        case _:
            with path.open("w", newline="") as file:
                writer_ = csv.DictWriter(file, ROWS[0].keys())
                writer_.writeheader()
                writer_.writerows(ROWS)
    return path


def rows_of(source: SourceSpec) -> list[dict[str, Any]]:
    return [row for batch in selected_batches(open_rows(source), source) for row in batch.to_pylist()]


@pytest.mark.parametrize("name", ["p.parquet", "p.arrow", "p.feather", "p.jsonl", "p.csv"])
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name)
    assert rows_of(SourceSpec(str(path))) == [{"_index_": number, **row} for number, row in enumerate(ROWS)]
    assert open_rows(SourceSpec(str(path))).count == len(ROWS)


def test_columns_are_renamed_and_may_be_used_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv")
    source = SourceSpec(
        str(path), columns={"prompt": "question", "target": "answer", "label": "answer"}, limit=1
    )
    first = {"_index_": 0, "prompt": ROWS[0]["question"], "target": "00", "label": "00"}
    assert rows_of(source) == [first]


@pytest.mark.parametrize(
    ("columns", "fault"),
    [({"prompt": "nope"}, "has no column 'nope'"), ({"answer": "question"}, "has a column 'answer' already")],
)
def test_a_map_that_does_not_fit_is_refused(tmp_path: Path, columns: dict[str, str], fault: str) -> None:
    source = SourceSpec(str(write(tmp_path / "p.csv")), columns=columns)
    with pytest.raises(UsageError, match=fault):
        rows_of(source)


@given(count=st.integers(0, 50), limit=st.none() | st.integers(1, 60), sample=st.none() | st.integers(1, 60))
def test_chosen_rows_are_in_order_and_as_many_as_asked(
    count: int, limit: int | None, sample: int | None
) -> None:
    selected = selected_numbers(SourceSpec("p", limit=limit, sample=sample), count)
    numbers = list(range(count)) if selected is None else selected.tolist()
    rest = min(count, limit or count)
    assert numbers == sorted(set(numbers))
    assert len(numbers) == min(rest, sample or rest)
    assert all(0 <= number < rest for number in numbers)


def test_a_sample_keeps_the_numbers_of_its_rows_and_depends_on_the_seed(tmp_path: Path) -> None:
    path = str(write(tmp_path / "p.parquet"))
    rows = rows_of(SourceSpec(path, sample=4))
    assert all(ROWS[row["_index_"]]["answer"] == row["answer"] for row in rows)
    assert rows == rows_of(SourceSpec(path, sample=4))
    assert rows != rows_of(SourceSpec(path, sample=4, seed=1))


def test_an_index_of_its_own_stays(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "a", "_index_": 7}\n{"prompt": "b", "_index_": 3}\n')
    assert rows_of(SourceSpec(str(path))) == [{"_index_": 7, "prompt": "a"}, {"_index_": 3, "prompt": "b"}]


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("p.jsonl", '{"a": 1}\n{"a": \n', "line 2: is not JSON"),
        ("p.jsonl", "[1, 2]\n", "line 1: is not a JSON object .* one object a line"),
        ("p.jsonl", '{"a": 1}\n{"a": "x"}\n', "the column 'a' holds int and str"),
        ("p.jsonl", '{"a": 9223372036854775808}\n', "from line 1 on: holds a whole number beyond 64 bits"),
        (
            "p.jsonl",
            '{"a": 1152921504606846977}\n' * 4096 + '{"a": 0.5}\n',
            "from line 1 on: Integer value 1152921504606846977",
        ),
        ("p.jsonl", '{"prompt": "x", "a": {}}\n', "the column 'a' holds objects that have no field"),
        ("p.jsonl", '{"prompt": "x", "a": [{}]}\n', "the column 'a' holds objects that have no field"),
        ("p.parquet", "text", "is not Parquet"),
        ("p.arrow", "text", "is not Arrow"),
        ("p.csv", "a,b\n1\n", "is not CSV"),
        ("p.csv", "", "is not CSV"),
        ("p.txt", "text", "give its format with --format"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str, content: str, fault: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(UsageError, match=fault):
        rows_of(SourceSpec(str(path)))


def test_lines_that_begin_later_columns_have_them_all(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"a": 1}\n' * 5000 + '{"a": 1.5, "b": ["x"]}\n')
    rows = rows_of(SourceSpec(str(path)))
    assert rows[0] == {"_index_": 0, "a": 1.0, "b": None}
    assert rows[-1] == {"_index_": 5000, "a": 1.5, "b": ["x"]}


@pytest.mark.parametrize("index", ['"x"', "[1]", "null"], ids=["text", "a list", "nothing"])
def test_an_index_that_is_no_number_is_reported(tmp_path: Path, index: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(f'{{"_index_": {index}, "prompt": "q"}}\n')
    with pytest.raises(UsageError, match="_index_ must"):
        rows_of(SourceSpec(str(path)))


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("prompt\n")
    source = SourceSpec(str(path))
    with pytest.raises(UsageError, match="has no rows"):
        write_dataset(open_rows(source), source, RunFolder(tmp_path / "run"))
