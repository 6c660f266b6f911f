"""Makes a report again from the same files, and compares: the count of rows, every score and number, every byte."""

import math
from collections.abc import AsyncIterator, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from steelyard_common.bounded_parquet import read_table
from steelyard_common.errors import SteelyardError
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.manifest import read_manifest
from steelyard_evaluation.engine.recount import recount
from steelyard_evaluation.report.answers import memory_mapped
from steelyard_evaluation.report.errors import NotInstalled, RubricFailed
from steelyard_evaluation.report.evidence.files import Check, ReportFolders, fault, read_bytes
from steelyard_evaluation.report.layout import NUMBERS, PAGE
from steelyard_evaluation.report.page import document
from steelyard_evaluation.report.page.page import numbers_json
from steelyard_evaluation.report.report import (
    Report,
    ReportContent,
    Request,
    draw_report,
    score_files,
    score_report,
)
from steelyard_evaluation.report.rubrics import NoSuchRubric, find_rubric
from steelyard_evaluation.report.rubrics.answer import to_text
from steelyard_evaluation.report.rubrics.find import parse_arguments
from steelyard_evaluation.report.scoring import summarise
from steelyard_evaluation.report.statistics.ranking import to_pairs
from steelyard_evaluation.report.status import count_statuses
from steelyard_evaluation.report.wording import count
from steelyard_evaluation.storage.files import FileStore
from steelyard_evaluation.storage.store import StorageError
from steelyard_schema.faults import error_text

CLOSE = 1e-9
"""Relative difference that two versions of a numerical library may have."""
MOST_LISTED = 10
UNREADABLE = (SteelyardError, StorageError, pa.ArrowException, OSError, ValueError, LookupError, TypeError)


async def check_row_counts(folders: ReportFolders) -> AsyncIterator[Check]:
    """Compare the rows of the output with the dataset's rows times the replications.

    The counts of the manifest are not trusted: a person who removes rows can edit them too.
    """
    output = FileStore(folders.evaluation)
    try:
        manifest = await read_manifest(output)
        counted = await recount(manifest, FileStore(folders.dataset), output)
    except UNREADABLE as error:
        yield fault(f"counting rows again: {error_text(error)}")
        return
    for sentence in counted.faults:
        yield fault(f"counting rows again: {sentence}")
    for path in counted.stray:
        yield fault(f"outputs: {path} lies among the outputs, and the manifest does not name it")
    if counted.faults:
        return
    rows, times = counted.rows, len(manifest.replications)
    identity = (
        f"{count(counted.questions)} rows of the dataset, asked {'once' if times == 1 else f'{times} times'}"
    )
    gone = f", {count(rows.missing)} are missing" if rows.missing else ""
    unanswered = f", {count(rows.errors)} without an answer" if rows.errors else ""
    yield Check(
        f"rows counted again: {identity}; {count(rows.present)} of {count(rows.total)} are there{gone}{unanswered}"
    )


def check_figures(numbers: JsonValue, folders: ReportFolders) -> Iterator[Check]:
    """Compute the figures again from the files of scores; this is all that is possible without inputs or outputs."""
    scoring = numbers["scoring"]
    results = [numbers, *numbers.get("more", ())]
    for rubric, name, recorded in zip(
        scoring["rubrics"], score_files(scoring["rubrics"]), results, strict=True
    ):
        path = folders.report / name
        # Which files are missing is said by the check of digests; here is what can still be computed.
        if not path.is_file():
            continue
        if lost := _files_lost(rubric, numbers, folders):
            yield Check(f"{rubric}: figures are not computed again without {', '.join(lost)}", "unchecked")
            continue
        try:
            kept = summarise(
                find_rubric(rubric, folders.known, _rubric_files(numbers, folders)),
                memory_mapped(path),
                scoring["reducers"],
            )
        except NotInstalled as error:
            yield Check(f"{name}: no figure is computed again: {_reason(error)}", "unchecked")
            continue
        except UNREADABLE as error:
            yield fault(f"{name}: {_reason(error)}")
            continue
        # As a reader of report.json gets them: in memory they may be tuples, or dictionaries with numbers as keys.
        again = orjson.loads(numbers_json(document.results_json(kept)))
        differing = list(_differences({key: recorded.get(key) for key in again}, again))
        for place, before, now in differing[:MOST_LISTED]:
            yield fault(f"{NUMBERS}, {place}: says {before}, computed from {name} {now}")
        if not differing:
            yield Check(f"{rubric}: headline and figures computed again from {name} are the same")


async def check_scores(
    numbers: JsonValue, folders: ReportFolders, scratch: Path, left_out: Container[str] = ()
) -> AsyncIterator[Check]:
    """Make the report again from the same files, and compare scores, numbers and page.

    `left_out` are files of the report that need not be here.
    """
    try:
        scored = await score_report(_request(numbers, folders), scratch)
        recorded = [folders.report / name for name in score_files(scored.request.rubrics)]
        same = True
        for rubric, new, old in zip(scored.request.rubrics, scored.scores, recorded, strict=True):
            check = _check_rescored(rubric, new, old)
            same = same and check.state == "fine"
            yield check
        # Equal scores may be in files of other bytes, written by another version of Parquet's library.
        drawn = await draw_report(replace(scored, scores=tuple(recorded)) if same else scored, scratch)
    except NotInstalled as error:
        yield Check(f"scoring again: is not possible here: {_reason(error)}", "unchecked")
        # The figures of the other rubrics, and of this one where the scores are enough, are still computed again.
        for check in check_figures(numbers, folders):
            yield check
        return
    except UNREADABLE as error:
        yield fault(f"scoring again: {_reason(error)}")
        return
    for check in (
        *compare_numbers(numbers, orjson.loads(drawn.numbers), NUMBERS),
        *_check_drawn(drawn, scored, folders, left_out),
    ):
        yield check


def _check_rescored(rubric: str, new: Path, old: Path) -> Check:
    table = read_table(new)
    try:
        before = read_table(old)
    except FileNotFoundError:
        return fault(f"{old.name}: is missing: scores made again are compared with none")
    except (OSError, pa.ArrowException) as error:
        return fault(f"{old.name}: cannot be read: {error}")
    different = table_difference(before, table)
    if different:
        return fault(f"{rubric}: {different}")
    rows = f"{count(table.num_rows)} rows ({count_statuses(table)})"
    return Check(f"{rubric}: {rows} scored again have the scores of {old.name}")


def table_difference(before: pa.Table, now: pa.Table) -> str:
    if before.column_names != now.column_names or before.num_rows != now.num_rows:
        return f"scoring again gives {now.num_rows} rows of {', '.join(now.column_names)}"
    for name in now.column_names:
        if before[name].equals(now[name]):
            continue
        old, new = before[name].to_pylist(), now[name].to_pylist()
        if pa.types.is_map(before[name].type):  # of an earlier version
            old = [None if pairs is None else to_pairs(pairs) for pairs in old]
        # Arrow's `equals` is exact; scores may differ in the last bit between versions of a numerical
        # library.
        rows = [k for k in range(len(new)) if not _equal(old[k], new[k])]
        if rows:
            index = now["_index_"][rows[0]].as_py()
            first = f"first of row {index}: {to_text(old[rows[0]])}, again {to_text(new[rows[0]])}"
            return f"{name} of {count(len(rows))} rows differs, {first}"
    return ""


def compare_numbers(recorded: JsonValue, again: JsonValue, name: str) -> Iterator[Check]:
    """Compare the numbers in the file `name` with those that were computed again."""
    differing = list(_differences(recorded, again))
    for place, before, now in differing[:MOST_LISTED]:
        yield fault(f"{name}, {place}: says {before}, computed again {now}")
    if len(differing) > MOST_LISTED:
        yield fault(f"{name}: {count(len(differing) - MOST_LISTED)} more differ")
    if not differing:
        leaves = dict(list_leaves(again))
        figures = sum(
            isinstance(value, int | float) and not isinstance(value, bool) for value in leaves.values()
        )
        yield Check(
            f"{name}: {count(figures)} numbers and {count(len(leaves) - figures)} words computed again are the same"
        )


def _differences(recorded: JsonValue, again: JsonValue) -> Iterator[tuple[str, str, str]]:
    """Yield each path where two documents differ, with the value of each."""
    before, now = dict(list_leaves(recorded)), dict(list_leaves(again))
    for place in dict.fromkeys([*before, *now]):
        if not _equal(before.get(place), now.get(place)):
            yield place, _value_text(before, place), _value_text(now, place)


def _check_drawn(
    drawn: Report, scored: ReportContent, folders: ReportFolders, left_out: Container[str]
) -> Iterator[Check]:
    files = {NUMBERS: drawn.numbers, PAGE: drawn.page}
    files |= {
        path: file.read_bytes() for path, file in drawn.extra_files.items() if file not in scored.scores
    }
    files = {
        path: data
        for path, data in files.items()
        # Compared by content before: another version of Parquet's library writes other bytes of the same
        # rows.
        if not path.endswith(".parquet") and not path.startswith(document.RUBRIC_FOLDER)
    }
    for path, data in files.items():
        lies = read_bytes(folders.page if path == PAGE else folders.report / path)
        if lies is None and path in left_out:
            continue
        if lies == data:
            yield Check(f"{path}: drawn again, is the same byte for byte")
        elif lies is None:
            yield fault(f"{path}: is missing")
        else:
            yield fault(f"{path}: drawn again, differs from byte {first_differing_byte(lies, data)} on")


def _request(numbers: JsonValue, folders: ReportFolders) -> Request:
    """Return the request that the report was made for, according to the report."""
    scoring = numbers["scoring"]
    evidence = numbers["evidence"]
    paths = [entry["path"] for entry in evidence if entry["what"] == document.ASKED]
    further = [entry for entry in evidence if entry["what"].startswith(document.FURTHER)]
    sorts = dict.fromkeys(entry["what"] for entry in further)
    rubric, *more = scoring["rubrics"]
    return Request(
        rubric=rubric,
        more=tuple(more),
        dataset=FileStore(folders.dataset),
        evaluation=FileStore(folders.evaluation),
        errors=FileStore(folders.errors),
        names=numbers["names"],
        dataset_view=_view(numbers["datasetView"]),
        evaluation_view=_view(scoring["evaluationView"]),
        reducers=tuple(scoring["reducers"]),
        group_by=tuple(scoring["groupBy"]),
        cluster_by=scoring["clusterBy"],
        records={path: read_bytes(folders.report / path) or b"" for path in paths},
        row_pages=scoring["rowPages"],
        spending=numbers.get("spending"),
        further={what: tuple(entry["path"] for entry in further if entry["what"] == what) for what in sorts},
        further_store=FileStore(folders.base),
        rubric_files=_rubric_files(numbers, folders),
        known=folders.known,
    )


def _reason(error: Exception) -> str:
    text = error_text(error)
    if isinstance(error, NoSuchRubric):
        return f"{text}; where the code of a module has it, give the module with --module FOLDER"
    if isinstance(error, RubricFailed) and not error.ours:
        return f"{text}, or give the code that made the report with --module FOLDER"
    return text


def _rubric_files(numbers: JsonValue, folders: ReportFolders) -> dict[str, str]:
    """Return the report's copies of the files that rubrics read, by the name that the request had for each."""
    files = numbers["scoring"].get("files") or {}
    return {given: str(folders.report / path) for given, path in files.items()}


def _files_lost(rubric: str, numbers: JsonValue, folders: ReportFolders) -> list[str]:
    """Return the report's copies of the files that a rubric reads which are not here."""
    given = parse_arguments(rubric.partition("?")[2]).values()
    copies = {name: path for name, path in (numbers["scoring"].get("files") or {}).items() if name in given}
    return [path for path in copies.values() if not (folders.report / path).is_file()]


@dataclass(frozen=True)
class _Adapter:
    kind: str
    configuration: JsonValue


def _view(pipeline: Sequence[JsonValue]) -> list[_Adapter]:
    return [_Adapter(adapter["kind"], adapter["configuration"]) for adapter in pipeline]


def list_leaves(value: JsonValue, place: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Yield every value that is neither a list nor an object, with its path such as `rows[3].index`."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from list_leaves(inner, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from list_leaves(inner, f"{place}[{number}]")
    else:
        yield place, value


def _equal(one: JsonValue, other: JsonValue) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=CLOSE, abs_tol=1e-12) or (
            math.isnan(one) and math.isnan(other)
        )
    # `True == 1` and `1 == 1.0` in Python; a report with one in place of the other is another file.
    return bool(one == other) and type(one) is type(other)


def _value_text(leaves: Mapping[str, JsonValue], place: str) -> str:
    return to_text(leaves[place])[:80] if place in leaves else "nothing"


def first_differing_byte(one: bytes, other: bytes) -> int:
    most = min(len(one), len(other))
    pair = np.frombuffer(one[:most], np.uint8) != np.frombuffer(other[:most], np.uint8)
    return int(pair.argmax()) if pair.any() else most
