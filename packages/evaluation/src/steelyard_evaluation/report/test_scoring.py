"""Rows scored with their groups and clusters, and the additions to the results of every rubric."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard_common.errors import UsageError
from steelyard_evaluation.report.answers import Questions, View
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.example import make_outputs, make_verified
from steelyard_evaluation.report.rubrics.classification import Classification
from steelyard_evaluation.report.scoring import Grouping, Output, score_output, summarise
from steelyard_evaluation.storage.files import FileStore

GROUPING = Grouping(("subject",), "document")
QUESTIONS = [
    {"_index_": 0, "label": "a", "subject": "law", "document": "d2"},
    {"_index_": 1, "label": "b", "subject": "law", "document": "d1"},
    {"_index_": 2, "label": "c", "subject": None, "document": "d2"},
    {"_index_": 3, "label": "a", "subject": "art", "document": None},
]


async def score_example(path: Path, grouping: Grouping = GROUPING) -> pa.Table:
    """The example's outputs: the answer to row 3 is wrong, each row is asked twice."""
    dataset, output = FileStore(path / "dataset"), FileStore(path / "output")
    outputs = make_outputs(QUESTIONS, ["x", "y"])
    manifest = await make_verified(
        dataset, output, questions=QUESTIONS, outputs=outputs, replications=["x", "y"]
    )
    questions = Questions([dataset.root / "part-0.parquet"], ["label", *grouping.columns], View())
    scratch = path / "scratch"
    scratch.mkdir()
    done: list[tuple[int, int]] = []
    made = await score_output(
        Classification(),
        Output(output, manifest, View()),
        questions,
        scratch / "scores.parquet",
        grouping,
        lambda *progress: done.append(progress),
    )
    assert done[-1] == (8, 8)
    assert [file.name for file in scratch.iterdir()] == ["scores.parquet"]
    return pq.read_table(made)


async def test_groups_and_clusters_come_with_the_scores(tmp_path: Path) -> None:
    scores = await score_example(tmp_path)
    assert scores["group:subject"].to_pylist() == ["law", "law", None, "art"] * 2
    assert scores["_cluster_"].to_pylist() == [0, 1, 0, -4] * 2
    assert scores.schema.field("_cluster_").metadata == {b"column": b"document"}
    assert scores["correct"].to_pylist() == [True, True, True, False] * 2


async def test_without_grouping_there_are_the_rubrics_columns_alone(tmp_path: Path) -> None:
    scores = await score_example(tmp_path, Grouping())
    assert scores.column_names == ["_index_", "_replication_", *Classification().scores.names, "status"]


async def test_a_column_that_there_is_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReportFailed, match=r"no column 'topic'; it has label, subject, document"):
        await score_example(tmp_path, Grouping(("topic",)))


async def test_every_rubric_gets_groups_replications_and_power(tmp_path: Path) -> None:
    results = summarise(Classification(), await score_example(tmp_path), ["majority", "pass@2"])
    assert [metric.name for metric in results.metrics[-2:]] == ["accuracy_majority", "accuracy_pass@2"]
    assert results.tables[0].title == "By subject"
    assert [row[0] for row in results.tables[0].rows] == ["art", "law", "(none)"]
    assert [group["value"] for group in results.numbers["groups"]["subject"]] == ["art", "law", "(none)"]
    assert results.limits[-1].startswith("4 questions cannot detect any difference")
    assert results.numbers["power"] is None


async def test_a_reducer_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    scores = await score_example(tmp_path, Grouping())
    with pytest.raises(UsageError, match="pass@3: needs at least 3 answers to each question; row 0 has 2"):
        summarise(Classification(), scores, ["pass@3"])
