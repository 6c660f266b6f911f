"""Answers and their questions, joined for scoring."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard_evaluation.report.answers import Questions, View, memory_mapped
from steelyard_evaluation.report.errors import ReportFailed


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    rows = [{"_index_": 5, "answer": "b", "label": "x"}, {"_index_": 3, "answer": "a", "label": "y"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "part.parquet")
    return [tmp_path / "part.parquet"]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["target|answer|label"], [{"answer": "a"}, {"answer": "b"}]),
        (["label"], [{"label": "y"}, {"label": "x"}]),
        (["choices|"], [{}, {}]),
        (
            ["answer", "label|answer", "answer"],
            [{"answer": "a", "label": "y"}, {"answer": "b", "label": "x"}],
        ),
        ([], [{}, {}]),
    ],
)
@pytest.mark.parametrize(
    "view", [View(), View(lambda rows: iter([dict(row) for row in rows]))], ids=["as it is", "viewed"]
)
def test_questions_have_the_columns_that_are_meant(
    files: list[Path], columns: list[str], expected: list[dict[str, str]], view: View
) -> None:
    assert Questions(files, columns, view).rows([3, 5]) == expected


@pytest.mark.parametrize("column", ["target", "target|truth"])
def test_a_column_that_is_not_there_is_named(files: list[Path], column: str) -> None:
    with pytest.raises(ReportFailed, match=r"no column 'target'( \(nor 'truth'\))?; it has answer, label"):
        Questions(files, [column], View())


def test_a_row_that_is_not_there_is_named(files: list[Path]) -> None:
    with pytest.raises(ReportFailed, match="the dataset has no row 4, but the output has"):
        Questions(files, [], View()).rows([3, 4])


def test_a_column_of_categories_has_another_dictionary_in_each_batch(tmp_path: Path) -> None:
    values = [f"c{number // 1000}" for number in range(20_000)]
    parts = [
        pa.array(values[start : start + 5000]).dictionary_encode() for start in range(0, len(values), 5000)
    ]
    table = pa.table({"_index_": pa.array(range(len(values)), pa.int64()), "label": pa.chunked_array(parts)})
    pq.write_table(table, tmp_path / "part.parquet", row_group_size=5000)
    rows = Questions([tmp_path / "part.parquet"], ["label"], View()).rows([0, 19_999])
    assert rows == [{"label": "c0"}, {"label": "c19"}]


def test_files_of_one_dataset_may_have_integers_and_floats(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("whole.parquet", "broken.parquet", "text.parquet")]
    for number, (path, value) in enumerate(zip(paths, (1, 2.5, "x"), strict=True)):
        pq.write_table(pa.table({"_index_": [number], "label": [value]}), path)
    assert Questions(paths[:2], ["label"], View()).rows([0, 1]) == [{"label": 1.0}, {"label": 2.5}]
    with pytest.raises(ReportFailed, match="the files of the dataset have different columns"):
        Questions(paths, ["label"], View())


def test_a_mapped_file_keeps_what_its_schema_says(tmp_path: Path) -> None:
    table = pa.table({"score": [1.0]}).replace_schema_metadata({b"unit": b"document"})
    pq.write_table(table, tmp_path / "scores.parquet")
    assert memory_mapped(tmp_path / "scores.parquet").schema.metadata == {b"unit": b"document"}
