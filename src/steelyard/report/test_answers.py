"""Answers and their questions, joined for scoring."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.report.answers import Questions, View
from steelyard.report.errors import ReportFailed


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
    with pytest.raises(
        ReportFailed, match=r"no column 'target'( \(nor 'truth'\))?; it has _index_, answer, label"
    ):
        Questions(files, [column], View())


def test_a_row_that_is_not_there_is_named(files: list[Path]) -> None:
    with pytest.raises(ReportFailed, match="the dataset has no row 4, but the output has"):
        Questions(files, [], View()).rows([3, 4])
