"""Two and more runs compared with the first: paired row by row, or refused with a message on what differs.

`steelyard eval compare` calls it. The numbers are `report.comparison`'s; here is which files they come from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard_common.bounded_parquet import batches, open_parquet, read_table
from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue, shorten, value_text
from steelyard_evaluation.engine.rows import to_rows
from steelyard_evaluation.engine.shape import INDEX
from steelyard_evaluation.report.comparison.reports import NotComparable, ScoredReport, compare
from steelyard_evaluation.report.comparison.runs import ComparedRuns, RunComparison, Side, comparison_page
from steelyard_evaluation.report.layout import CLUSTER, SCORES
from steelyard_evaluation.report.page.page import Evidence
from steelyard_evaluation.report.page.rows import readable
from steelyard_evaluation.report.results import Unit
from steelyard_evaluation.report.rubrics import find_rubric
from steelyard_evaluation.report.rubrics.answer import to_text
from steelyard_evaluation.report.statistics.intervals import Scale, holm
from steelyard_evaluation.runs.folder import Run, open_run
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_schema.columns import lacking

MOST_TEXT = 160
TEXTS = ("prompt", "question", "text", "input")


def compare_runs(
    paths: Sequence[Path], rubric: str | None = None, cluster_by: str | None = None
) -> ComparedRuns:
    """Each run against the first, by the rubric that leads the first or is named. UsageError says what differs."""
    _check_paths(paths)
    runs = [open_run(path) for path in paths]
    for run in runs:
        run.check()
    reference = rubric or _list_scores(runs[0])[0].rubric
    scored = [_find_scores(run, reference, runs[0]) for run in runs]
    for run, scored_by in zip(runs, scored, strict=True):
        if scored_by.nothing is not None:
            raise UsageError(f"{_name(run)}: has no number to compare: {scored_by.nothing}")
    tables = [
        read_table(run.score_files[Path(scorer.file).stem]) for run, scorer in zip(runs, scored, strict=True)
    ]
    column = _cluster(runs[0], tables, cluster_by)
    comparisons = []
    for run, table in zip(runs[1:], tables[1:], strict=True):
        _check_data(runs[0], run)
        one = compare(
            ScoredReport(reference, (), "", tables[0], scored[0].scale),
            ScoredReport(reference, (), "", table, scored[0].scale),
        )
        if isinstance(one, NotComparable):
            raise UsageError(f"{_name(run)}: not comparable with {_name(runs[0])}, because {one.reason}")
        comparisons.append(one)
    # Several runs against one are several tests: without Holm's correction some difference would show by
    # chance.
    ps = holm([one.p_value.p for one in comparisons])
    sides = [_side(number, run, runs[0], scored[number].file) for number, run in enumerate(runs)]
    binary = all(one.binary for one in comparisons)
    unit: Unit = "share" if binary else scored[0].unit
    title = "Right" if binary else scored[0].title
    others = tuple(RunComparison(*values) for values in zip(sides[1:], comparisons, ps, strict=True))
    scale = None if binary else scored[0].scale
    return ComparedRuns(reference, title, unit, sides[0], others, column, scale)


def page(compared: ComparedRuns, first: Path) -> bytes:
    """The comparison as one HTML file; questions are shown as the first run was asked them."""
    changed = {
        change.index
        for other in compared.others
        for changes in other.comparison.changes
        for change in changes.shown
    }
    return comparison_page(compared, _texts(open_run(first), changed))


def _check_paths(paths: Sequence[Path]) -> None:
    if len(paths) < 2:
        raise UsageError(
            "RUNS: should be two folders of runs at least, the first of which the others stand against"
        )
    if len(paths) > len(ascii_uppercase):
        raise UsageError(f"RUNS: are {len(paths)}; at most {len(ascii_uppercase)} can be compared at once")
    there = [path.resolve() for path in paths]
    for number, path in enumerate(paths):
        if there[number] in there[:number]:
            raise UsageError(f"{path}: is named twice; a run does not differ from itself")


@dataclass(frozen=True)
class _ScoredBy:
    """The rubric that scored a run, the path of its scores, and the unit and scale of the first metric."""

    rubric: str
    file: str
    unit: Unit
    scale: Scale | None
    title: str
    """Title of the mean of the rows' scores."""
    nothing: str | None = None
    """The headline of results whose leading number is not known."""


def _list_scores(run: Run) -> list[_ScoredBy]:
    """The rubrics that a run was scored by, the leading one first."""
    if run.numbers is None:
        raise UsageError(
            f"{_name(run)}: has no scores yet: steelyard eval score {_name(run)} --rubric exact-match"
        )
    several = [{**run.numbers, "scores": SCORES}, *run.numbers.get("more", [])]
    return [_read_rubric_scores(rubric) for rubric in several]


def _read_rubric_scores(numbers: Mapping[str, Any]) -> _ScoredBy:
    lead = numbers["metrics"][0]
    # Reports of earlier versions name no scale.
    scale = (0.0, 1.0) if lead["unit"] == "share" else lead.get("scale")
    scale = None if scale is None else tuple(scale)
    nothing = numbers["headline"] if lead["value"] is None else None
    title = numbers.get("meanOfRows", lead)["title"]
    return _ScoredBy(numbers["rubric"], numbers["scores"], lead["unit"], scale, title, nothing)


def _find_scores(run: Run, reference: str, first: Run) -> _ScoredBy:
    """The scores of this rubric, written with the same arguments or with others that mean the same."""
    there, wanted = _list_scores(run), find_rubric(reference)
    for scored_by in there:
        if find_rubric(scored_by.rubric) == wanted:
            return scored_by
    mismatch = f"; {_name(first)} was by {reference}" if run is not first else ""
    raise UsageError(
        f"{_name(run)}: was scored by {', '.join(other.rubric for other in there)}, not by {reference}{mismatch}. "
        f"Score it again: steelyard eval score {_name(run)} --rubric '{reference}'"
    )


def _check_data(first: Run, run: Run) -> None:
    """The same files, by content, read in the same way; a part of the rows may be asked."""
    # The written dataset differs where one run asked a part of the rows: then the prompt files themselves are
    # compared.
    if [entry.sha256 for entry in first.manifest.inputs] == [entry.sha256 for entry in run.manifest.inputs]:
        return
    one, other = (compared_run.record.get("identity", {}) for compared_run in (first, run))
    if one.get("source") != other.get("source") or not one.get("source"):
        raise UsageError(
            f"{_name(run)}: was asked other data than {_name(first)}: "
            f"SHA-256 {_sha(other, run)}, and {_sha(one, first)} of {_name(first)}"
        )
    if one.get("columns") != other.get("columns"):
        raise UsageError(
            f"{_name(run)}: reads the columns of {run.request.source.location} otherwise than {_name(first)}: "
            f"{value_text(other.get('columns'))} instead of {value_text(one.get('columns'))}"
        )


def _sha(identity: Mapping[str, JsonValue], run: Run) -> str:
    files = identity.get("source") or [{"sha256": entry.sha256} for entry in run.manifest.inputs]
    return f"{files[0]['sha256'][:12]}…"


def _cluster(first: Run, tables: list[pa.Table], column: str | None) -> str | None:
    """Add the clusters of the first run's rows to all scores; return the column that they come from."""
    # Clusters of another run alone would not be the same partition of the rows: none count.
    if column is None and CLUSTER not in tables[0].column_names:
        for number, table in enumerate(tables):
            tables[number] = table.drop_columns([CLUSTER] if CLUSTER in table.column_names else [])
        return None
    if column is None:
        table = tables[0]
        index, codes = table[INDEX].to_numpy(), table[CLUSTER].to_numpy()
        name = (table.schema.field(CLUSTER).metadata or {}).get(b"column", b"cluster").decode()
    else:
        index, codes = _codes(first, column)
        name = column
    order = np.argsort(index, kind="stable")
    for number, table in enumerate(tables):
        tables[number] = _cluster_rows(table, index[order], codes[order])
    return name


def _cluster_rows(table: pa.Table, index: Any, codes: Any) -> pa.Table:
    """Rows that the first run has not are left out of the comparison anyway: each is a cluster of its own."""
    mine = table[INDEX].to_numpy()
    places = np.minimum(np.searchsorted(index, mine), index.size - 1)
    clusters = np.where(index[places] == mine, codes[places], -1 - mine)
    bare = table.drop_columns([CLUSTER] if CLUSTER in table.column_names else [])
    return bare.append_column(CLUSTER, pa.array(clusters, pa.int64()))


def _codes(run: Run, column: str) -> tuple[Any, Any]:
    paths = run.inputs
    there = [name for name in open_parquet(paths[0]).schema_arrow.names if name != INDEX]
    if column not in there:
        raise UsageError(
            f"--cluster-by {column}: {_name(run)} was asked rows with no such column; {lacking([column], there)}"
        )
    table = pa.concat_tables([read_table(path, [INDEX, column]) for path in paths])
    values = [row[column] for row in to_rows(table.select([column]))]
    index = table[INDEX].to_numpy()
    numbers: dict[str, int] = {}
    # A row without a value is a cluster of its own: nothing shows that two of them belong together.
    codes = [
        # By their text, in which equal numbers are one: values may also be lists and objects, which are no keys.
        -1 - row if value is None else numbers.setdefault(to_text(value), len(numbers))
        for row, value in zip(index.tolist(), values, strict=True)
    ]
    return index, np.array(codes, dtype=np.int64)


def _texts(run: Run, indexes: set[int]) -> dict[int, str]:
    """The questions of a few rows, cut short."""
    names = open_parquet(run.inputs[0]).schema_arrow.names
    # A template is made of several columns: then the first one that looks like a question is shown.
    column = next((name for name in (run.request.prompt.column, *TEXTS) if name in names), None)
    if column is None or not indexes:
        return {}
    prompts: dict[int, str] = {}
    for path in run.inputs:
        for batch in batches(path, 65536, [INDEX, column]):
            few = batch.filter(pc.is_in(batch.column(INDEX), pa.array(sorted(indexes), pa.int64())))
            prompts |= {row[INDEX]: _cut(row[column]) for row in few.to_pylist()}
    return prompts


def _cut(value: JsonValue) -> str:
    text = "" if value is None else " ".join(readable(value).split())
    return shorten(text, MOST_TEXT)


def _side(number: int, run: Run, first: Run, scores: str) -> Side:
    evidence = (
        *(
            Evidence("Dataset", f"inputs/{entry.path}", entry.size, entry.sha256)
            for entry in run.manifest.inputs
        ),
        _evidence("Manifest", run, run.folder.manifest),
        _evidence("Scores", run, run.folder.path / scores),
    )
    return Side(ascii_uppercase[number], _name(run), run.request.model, evidence, _differs(first, run))


def _evidence(what: str, run: Run, path: Path) -> Evidence:
    return Evidence(what, str(path.relative_to(run.folder.path)), path.stat().st_size, file_sha256(path))


def _differs(first: Run, run: Run) -> tuple[str, ...]:
    """Return the settings that differ. The rows that were asked follow from them and from the data, which is equal."""
    one, other = (compared_run.record.get("identity", {}) for compared_run in (first, run))
    return tuple(
        f"{name} {_short(other.get(name))} instead of {_short(value)}"
        for name, value in one.items()
        if other.get(name) != value and name != "inputs"
    )


def _short(value: JsonValue) -> str:
    """Return a setting on one line; a text stands in quotes."""
    if value in (None, {}, []):
        return "none"
    return f'"{_cut(value)}"' if isinstance(value, str) else _cut(value)


def _name(run: Run) -> str:
    return str(run.folder.path)
