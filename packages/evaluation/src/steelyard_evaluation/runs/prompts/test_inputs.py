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

from steelyard_common.errors import UsageError
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.runs.folder import RunFolder
from steelyard_evaluation.runs.prompts.inputs import (
    open_rows,
    select_batches,
    select_numbers,
    write_dataset,
)
from steelyard_evaluation.runs.request import SourceSpec

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
    return [row for batch in select_batches(open_rows(source), source) for row in to_rows(batch)]


@pytest.mark.parametrize("name", ["p.parquet", "p.arrow", "p.feather", "p.jsonl", "p.csv"])
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name)
    assert rows_of(SourceSpec(str(path))) == [{"_index_": number, **row} for number, row in enumerate(ROWS)]
    assert open_rows(SourceSpec(str(path))).count == len(ROWS)


@pytest.mark.parametrize("name", ["p.jsonl", "p.csv"])
def test_the_mark_of_utf_8_at_the_beginning_is_no_part_of_a_name(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert [row["question"] for row in rows_of(SourceSpec(str(path)))] == [row["question"] for row in ROWS]


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
    selected = select_numbers(SourceSpec("p", limit=limit, sample=sample), count)
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
        ("p.jsonl", '{"a": 1}\n{"a": \n', "line 2 is not JSON"),
        ("p.jsonl", "[1, 2]\n", "element 1 is not a JSON object; .* one object a line"),
        ("p.jsonl", '{"a": 1}\n{"a": "x"}\n', "the column 'a' holds texts and whole numbers"),
        ("p.jsonl", '{"a": 1}\n{"a": true}\n', "the column 'a' holds true or false and whole numbers"),
        ("p.jsonl", '{"a": 1}\n{"a": 0.5}\n{"a": "x"}\n', "holds numbers and texts and whole numbers"),
        (
            "p.jsonl",
            '{"a": 18446744073709551615}\n' * 4096 + '{"a": "x"}\n',
            "from line 4097 on: the column 'a' holds texts and whole numbers",
        ),
        ("p.jsonl", '{"prompt": "x", "prompt": "y"}\n', "line 1: the key 'prompt' is there twice"),
        ("p.jsonl", '{"prompt": [{"a": 1, "a": 2}]}\n', "line 1: the key 'a' is there twice"),
        (
            "p.jsonl",
            '{"prompt": "x", "m": {"a": [18446744073709551616]}}\n',
            "the number 18446744073709551616 does",
        ),
        (
            "p.jsonl",
            '{"prompt": "x", "target": -9223372036854775809}\n',
            "line 1: the number -9223372036854775809",
        ),
        ("p.csv", "prompt,target,prompt\na,b,c\n", "the column 'prompt' is there twice"),
        ("p.parquet", "text", "is not Parquet"),
        ("p.arrow", "text", "is not Arrow"),
        ("p.csv", "a,b\n1\n", "line 2 has 1 value, but"),
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
    assert repr(rows[0]) == "{'_index_': 0, 'a': 1, 'b': None}"
    assert rows[-1] == {"_index_": 5000, "a": 1.5, "b": ["x"]}


@pytest.mark.parametrize("index", ['"x"', "[1]", "null"], ids=["text", "a list", "nothing"])
def test_an_index_that_is_no_number_is_reported(tmp_path: Path, index: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(f'{{"_index_": {index}, "prompt": "q"}}\n')
    with pytest.raises(UsageError, match="_index_ must hold a whole number from 0 in every row"):
        rows_of(SourceSpec(str(path)))


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("prompt\n")
    source = SourceSpec(str(path))
    with pytest.raises(UsageError, match="has no rows"):
        write_dataset(open_rows(source), source, RunFolder(tmp_path / "run"))


@pytest.mark.parametrize("size", [1 << 20, 9 << 20])
def test_a_cell_of_any_length_is_read(tmp_path: Path, size: int) -> None:
    path = tmp_path / "p.csv"
    rows = [["prompt", "target"], ["x" * size, "01"], ["short", "02"], ["y" * size, "03"]]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    read = rows_of(SourceSpec(str(path)))
    assert [[row["prompt"], row["target"]] for row in read] == rows[1:]


@pytest.mark.parametrize("name", ["p.parquet", "p.arrow"])
def test_types_that_parquet_does_not_know_are_read_all_the_same(tmp_path: Path, name: str) -> None:
    prompts: Any = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))
    kinds = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array(["x", "y"]))
    columns: dict[str, Any] = {
        "prompt": prompts,
        "kind": kinds,
        "view": pa.array(["1", "2", "3"], pa.string_view()),
    }
    if name == "p.parquet":
        del columns["prompt"], columns["view"]
        pq.write_table(pa.table(columns), tmp_path / name)
    else:
        table = pa.table(columns)
        with pa.OSFile(str(tmp_path / name), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    source = SourceSpec(str(tmp_path / name))
    path = write_dataset(open_rows(source), source, RunFolder(tmp_path / "run"))
    read = pq.read_table(path).to_pylist()
    assert [row["kind"] for row in read] == ["x", "y", "x"]
    assert name == "p.parquet" or [(row["prompt"], row["view"]) for row in read] == [
        ("a", "1"),
        ("a", "2"),
        ("b", "3"),
    ]
