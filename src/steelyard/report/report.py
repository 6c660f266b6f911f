"""Makes a report: reads what verification vouches for, scores it, and puts page, numbers and scores together.

The step `run_report` calls `make_report`; nothing here knows the time, the host or a resource.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pyarrow.compute as pc
import pyarrow.parquet as pq

from steelyard.evaluation import layout
from steelyard.evaluation.adapters import AdapterSpec
from steelyard.evaluation.manifest import FileEntry, Manifest
from steelyard.report.document import Subject, make_document
from steelyard.report.failures import describe, indexes_shown, wrong_questions
from steelyard.report.joined import Questions, local_copy, make_view, sha256_of
from steelyard.report.page import numbers_json, page
from steelyard.report.reducers import check_reducers
from steelyard.report.results import Results
from steelyard.report.rubrics import find_rubric
from steelyard.report.scoring import Grouping, Output, Progress, score_output, summarise
from steelyard.storage.store import ObjectMissing, Store

SCORES = "scores.parquet"
NUMBERS = "report.json"
PAGE = "report.html"


@dataclass(frozen=True)
class Request:
    """What to score, by which rubric; `names` are the ids and names that the page shows."""

    rubric: str
    dataset: Store
    evaluation: Store
    names: Mapping[str, str] = field(default_factory=dict)
    dataset_view: Sequence[AdapterSpec] | None = None
    evaluation_view: Sequence[AdapterSpec] | None = None
    reducers: tuple[str, ...] = ()
    """What several answers to a question come to: mean, majority, best, pass@k."""
    group_by: tuple[str, ...] = ()
    cluster_by: str | None = None
    """Columns of the dataset: scores are told apart by the former, rows with one value of the latter hang together."""


@dataclass(frozen=True)
class Report:
    """The page, report.json, and where the scores of the rows lie."""

    page: bytes
    numbers: bytes
    scores: Path
    headline: str
    rows: int


async def make_report(
    request: Request, folder: Path, progress: Progress = lambda done, total: None
) -> Report:
    """The report; `folder` is scratch space for local copies.

    ReportFailed and UsageError say why there is none.
    """
    rubric = find_rubric(request.rubric)
    grouping = Grouping(request.group_by, request.cluster_by)
    check_reducers(request.reducers)
    raw_manifest = await request.evaluation.get(layout.MANIFEST)
    manifest = Manifest.model_validate_json(raw_manifest)
    raw_run = await _run_json(request.evaluation)
    (folder / "dataset").mkdir()
    dataset = [
        await local_copy(request.dataset, entry, folder / "dataset", number)
        for number, entry in enumerate(manifest.inputs)
    ]
    view = make_view(request.dataset_view)
    questions = await asyncio.to_thread(Questions, dataset, (*rubric.columns, *grouping.columns), view)
    output = Output(request.evaluation, manifest, make_view(request.evaluation_view))
    scores = await score_output(rubric, output, questions, folder / SCORES, grouping, progress)
    subject = Subject(
        rubric=request.rubric,
        names=request.names,
        run=orjson.loads(raw_run) if raw_run else {},
        manifest=manifest,
        scores=await asyncio.to_thread(_described, scores, manifest.rows.present),
        dataset_view=request.dataset_view or (),
    )
    digests = {layout.MANIFEST: raw_manifest, **({layout.RUN: raw_run} if raw_run else {})}
    results = await asyncio.to_thread(lambda: summarise(rubric, pq.read_table(scores), request.reducers))
    return await asyncio.to_thread(_report, subject, results, scores, questions, _records(digests))


def _report(
    subject: Subject, results: Results, scores: Path, questions: Questions, records: Sequence[FileEntry]
) -> Report:
    table = pq.read_table(scores)
    wrong = wrong_questions(table)
    rows = questions.whole_rows(indexes_shown(wrong))
    failures = describe(table, wrong, pc.count_distinct(table["_index_"]).as_py(), rows)
    document = make_document(subject, results, failures, records)
    return Report(page(document), numbers_json(document.numbers), scores, results.headline, table.num_rows)


async def _run_json(store: Store) -> bytes | None:
    try:
        return await store.get(layout.RUN)
    except ObjectMissing:
        return None


def _described(scores: Path, rows: int) -> FileEntry:
    return FileEntry(path=SCORES, size=scores.stat().st_size, sha256=sha256_of(scores), rows=rows)


def _records(digests: Mapping[str, bytes]) -> list[FileEntry]:
    return [
        FileEntry(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest(), rows=0)
        for path, data in digests.items()
    ]
