"""Tests of the checks of what a method leaves in its output folder."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard_evaluation.analysis import outputs
from steelyard_evaluation.analysis.errors import AnalysisFailed
from steelyard_evaluation.analysis.example import ID, ROWS, make_analysis, make_method
from steelyard_evaluation.analysis.outputs import check_outputs
from steelyard_evaluation.analysis.tables import fit_table
from steelyard_evaluation.analysis.workspace import Workspace
from steelyard_schema.analysis import AnalysisFields

MEASUREMENT = AnalysisFields.parse(make_analysis())
SAFETY_CASE = AnalysisFields.parse(make_analysis(make_method("JupyterNotebook", "case.ipynb")))
TABLE = pa.Table.from_pylist([{"_index_": 0, "length": 1}], ROWS)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(tmp_path, ID)
    workspace.prepare()
    pq.write_table(TABLE, workspace.output / "part-0.parquet")
    return workspace


def test_rows_of_all_files_count(workspace: Workspace) -> None:
    (workspace.output / "_index_=7").mkdir()
    pq.write_table(TABLE.select(["length"]), workspace.output / "_index_=7" / "part-0.parquet")
    (workspace.output / ".hidden").write_text("no rows")
    checked = check_outputs(workspace, MEASUREMENT)
    assert sorted(checked.files) == [".hidden", "_index_=7/part-0.parquet", "part-0.parquet"]
    assert checked.rows == 2


def test_a_log_of_the_method_is_not_published(workspace: Workspace) -> None:
    (workspace.output / ".dyff").mkdir()
    (workspace.output / ".dyff" / "logs.txt").write_text("its own")
    checked = check_outputs(workspace, MEASUREMENT)
    assert (sorted(checked.files), checked.records) == (["part-0.parquet"], {})


def _platform_file(folder: Path) -> None:
    (folder / ".steelyard").mkdir()
    (folder / ".steelyard" / "manifest.json").touch()


def _other_file(folder: Path) -> None:
    (folder / ".dyff").mkdir()
    (folder / ".dyff" / "other.json").touch()


def _bytes_name(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.parquet")).touch()


@pytest.mark.parametrize(
    ("leave", "message"),
    [
        (
            lambda folder: (folder / "link.parquet").symlink_to("/etc/passwd"),
            "link.parquet is a symbolic link to /etc",
        ),
        (lambda folder: (folder / "folder").symlink_to("/etc"), "folder is a symbolic link to /etc"),
        (lambda folder: (folder / "inside").symlink_to("part-0.parquet"), "inside is a symbolic link"),
        (lambda folder: os.mkfifo(folder / "pipe"), "pipe should be a regular file"),
        (lambda folder: (folder / "%2e%2e").touch(), "not a name of a file that can be stored"),
        (lambda folder: (folder / "a\\b").touch(), "not a name of a file that can be stored"),
        (_bytes_name, "not a name of a file that can be stored"),
        (lambda folder: (folder / ".#part").touch(), "those of half-written files"),
        (_platform_file, r"\.steelyard/manifest\.json lies in the platform's own folder"),
        (_other_file, r"\.dyff/other\.json lies in the platform's own folder"),
        (lambda folder: (folder / "notes.txt").touch(), r"notes\.txt: a measurement has Parquet files alone"),
        (lambda folder: (folder / "no.parquet").write_text("no"), r"no\.parquet: cannot be read as Parquet"),
        (
            lambda folder: pq.write_table(TABLE.select(["length"]), folder / "more.parquet"),
            r"more\.parquet: column _index_ is missing; the method declares int64",
        ),
        (
            lambda folder: pq.write_table(TABLE.append_column("more", [["x"]]), folder / "more.parquet"),
            r"more\.parquet: column more is string; the method declares none",
        ),
        (lambda folder: (folder / "part-0.parquet").unlink(), "no Parquet file in the output"),
    ],
)
def test_what_cannot_be_published_is_named(
    workspace: Workspace, leave: Callable[[Path], Any], message: str
) -> None:
    leave(workspace.output)
    with pytest.raises(AnalysisFailed, match=message) as failure:
        check_outputs(workspace, MEASUREMENT)
    assert (failure.value.code, failure.value.permanent) == ("OutputInvalid", True)


@pytest.mark.parametrize(
    ("bound", "message"), [("MOST_FILES", "more than 1 files"), ("MOST_BYTES", "more than 1 bytes")]
)
def test_an_output_over_its_bounds_is_refused(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, bound: str, message: str
) -> None:
    monkeypatch.setattr(outputs, bound, 1)
    (workspace.output / ".more").write_text("x")
    with pytest.raises(AnalysisFailed, match=message):
        check_outputs(workspace, MEASUREMENT)


def test_a_safety_case_needs_its_page(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnalysisFailed, match=r"there is no index\.html in the output"):
        check_outputs(workspace, SAFETY_CASE)
    (workspace.output / "index.html").write_text("page")
    assert sorted(check_outputs(workspace, SAFETY_CASE).files) == ["index.html", "part-0.parquet"]
    monkeypatch.setattr(outputs, "MOST_PAGE_BYTES", 3)
    with pytest.raises(AnalysisFailed, match=r"index\.html has 4 bytes; at most 3"):
        check_outputs(workspace, SAFETY_CASE)


def test_columns_of_a_measurement_that_are_missing_and_too_many_are_named() -> None:
    with pytest.raises(
        AnalysisFailed, match=r"declares _index_, length: missing: length; not declared: more$"
    ):
        fit_table(pa.table({"_index_": [0], "more": [1]}), ROWS)
