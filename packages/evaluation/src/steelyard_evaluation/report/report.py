"""Makes a report: reads what verification vouches for, scores it, and puts page, numbers and scores together.

The step `run_report` and stand-alone runs call `make_report`, then `publish`; nothing here knows the time, the host or
a resource. Who verifies a report calls the two halves, `score_report` and `draw_report`.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from steelyard_common.types import Json, mapping
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.adapters import AdapterSpec
from steelyard_evaluation.engine.errors import EvaluationFailed
from steelyard_evaluation.engine.manifest import FileEntry, Manifest
from steelyard_evaluation.engine.record import read_servers
from steelyard_evaluation.engine.recount import check_complete
from steelyard_evaluation.report.answers import Questions, local_copy, make_view, memory_mapped
from steelyard_evaluation.report.duplicate_prompts import duplicates_note
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.evidence.inputs import copy_rubric_files, file_entry, further_files
from steelyard_evaluation.report.page.document import RUBRIC_FOLDER, Findings, Subject, make_document
from steelyard_evaluation.report.page.failures import (
    RubricFailures,
    describe,
    describe_together,
    indexes_shown,
    readable_texts,
    wrong_questions,
)
from steelyard_evaluation.report.page.page import Section, numbers_json, page
from steelyard_evaluation.report.page.row_columns import RowColumns, make_columns
from steelyard_evaluation.report.page.row_errors import (
    Records,
    keys_shown,
    read_records,
    row_errors,
    row_keys,
)
from steelyard_evaluation.report.page.row_pages import MOST_PAGED, RowPages
from steelyard_evaluation.report.page.row_scan import Reading, question_reader
from steelyard_evaluation.report.page.rows import MOST_BYTES, MOST_ROWS, Rows, choice_sentence, choose
from steelyard_evaluation.report.results import Results, Rubric
from steelyard_evaluation.report.rubrics import alias, find_rubric
from steelyard_evaluation.report.rubrics.calls import rubric_code
from steelyard_evaluation.report.rubrics.vocabularies import check_common_values
from steelyard_evaluation.report.scoring import Grouping, Output, Progress, score_output, summarise
from steelyard_evaluation.report.statistics.reducers import check_reducers
from steelyard_evaluation.storage.checked import check_record, get_document
from steelyard_evaluation.storage.store import ObjectMissing, Store


@dataclass(frozen=True)
class Request:
    """Request for a report: which answers, and which rubric; `names` are the ids and names that the page shows."""

    rubric: str
    dataset: Store
    evaluation: Store
    names: Mapping[str, str] = field(default_factory=dict)
    dataset_view: Sequence[AdapterSpec] | None = None
    evaluation_view: Sequence[AdapterSpec] | None = None
    reducers: tuple[str, ...] = ()
    """Reducers, which make one score of several answers to a question: mean, majority, best, pass@k."""
    group_by: tuple[str, ...] = ()
    cluster_by: str | None = None
    """Columns of the dataset: scores are grouped by the former, rows with one value of the latter hang together."""
    errors: Store | None = None
    """Store of the records of row errors, if not the output's own."""
    more: tuple[str, ...] = ()
    """Further rubrics; `rubric` leads."""
    records: Mapping[str, bytes] = field(default_factory=dict)
    """Further files that the numbers depend on, by their paths in the report's folder."""
    further: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Files that the outputs were themselves made from (judges' runs): paths in `further_store`, by what they are."""
    further_store: Store | None = None
    """Store with the files of `further`."""
    rubric_files: Mapping[str, str] = field(default_factory=dict)
    """The present path of a file that a rubric reads, by the name that was given for it; by default that name."""
    spending: Mapping[str, Any] | None = None
    """Tokens and cost of the model, of each judge and in total, where they were counted."""
    row_pages: bool = False
    """True where all rows are written as pages of their own if they do not fit into the report."""
    known: tuple[EntryPoint, ...] | None = None
    """Rubrics that may be named; without them, the installed ones."""

    @property
    def rubrics(self) -> tuple[str, ...]:
        return (self.rubric, *self.more)


@dataclass(frozen=True)
class ReportContent:
    """Content that a report is drawn from. `scores` are files, one per rubric."""

    request: Request
    rubrics: tuple[Rubric, ...]
    manifest: Manifest
    run: bytes | None
    raw_manifest: bytes
    errors: Records
    dataset: tuple[Path, ...]
    scores: tuple[Path, ...]
    rubric_files: Mapping[str, Path]
    """Copies of the files that the rubrics have read, by the name that was given for each."""
    further: tuple[tuple[str, FileEntry], ...]
    servers: Mapping[str, bytes] = field(default_factory=dict)
    """Records of the servers that were asked, by their paths."""


@dataclass(frozen=True)
class Report:
    """The page, report.json, and where the scores of the rows lie."""

    page: bytes
    numbers: bytes
    scores: Path
    """Scores of the first rubric."""
    headline: str
    rows: int
    extra_files: Mapping[str, Path] = field(default_factory=dict)
    """Scores of further rubrics, and pages of rows, by their paths in the page's folder."""
    headlines: tuple[tuple[str, str], ...] = ()
    """Every rubric with its headline."""


async def make_report(
    request: Request, folder: Path, progress: Progress = lambda done, total: None
) -> Report:
    """The report; `folder` is scratch space for local copies.

    ReportFailed and UsageError say why there is none.
    """
    scored = await score_report(request, folder, progress)
    # Not in its halves: an earlier report of such data can still be verified.
    for rubric, reference, path in zip(scored.rubrics, request.rubrics, scored.scores, strict=True):
        if getattr(rubric, "compares", None) is not None:
            table = memory_mapped(path, ["_index_", "score", "label", "prediction"])
            await asyncio.to_thread(check_common_values, rubric, table, reference)
    return await draw_report(scored, folder)


async def score_report(
    request: Request, folder: Path, progress: Progress = lambda done, total: None
) -> ReportContent:
    """Every row scored by every rubric, into files in `folder`."""
    rubrics = tuple(
        find_rubric(reference, request.known, request.rubric_files) for reference in request.rubrics
    )
    rubric_files = await asyncio.to_thread(copy_rubric_files, rubrics, request.rubric_files, folder)
    grouping = Grouping(request.group_by, request.cluster_by)
    check_reducers(request.reducers)
    # Kept as bytes: its digest is evidence, and a manifest that is written again may differ.
    raw_manifest = await get_document(request.evaluation, layout.MANIFEST)
    manifest = Manifest.model_validate_json(raw_manifest)
    try:
        run = await get_document(request.evaluation, layout.RUN)
    except ObjectMissing:
        run = None
    (folder / "dataset").mkdir()
    dataset = [
        await local_copy(request.dataset, entry, folder / "dataset", number)
        for number, entry in enumerate(manifest.inputs)
    ]
    view = make_view(request.dataset_view)
    output = Output(request.evaluation, manifest, make_view(request.evaluation_view))
    paths = []
    for number, (rubric, name) in enumerate(zip(rubrics, score_files(request.rubrics), strict=True)):
        with rubric_code(type(rubric), "in columns"):
            columns = tuple(rubric.columns)
        questions = await asyncio.to_thread(Questions, dataset, (*columns, *grouping.columns), view)

        # A default binds the number of this turn; the closure would see the last one.
        def report_progress(done: int, total: int, before: int = number * manifest.rows.present) -> None:
            progress(before + done, total * len(rubrics))

        paths.append(await score_output(rubric, output, questions, folder / name, grouping, report_progress))
    # A manifest that was edited to fit rows taken out or put in makes no report: the rows are counted. This comes after
    # scoring, which refuses files of another digest.
    try:
        await check_complete(manifest, request.dataset, request.evaluation)
    except EvaluationFailed as error:
        raise ReportFailed(error.code, error.message, permanent=error.permanent) from error
    errors = await read_records(request.errors or request.evaluation)
    return ReportContent(
        request=request,
        rubrics=rubrics,
        manifest=manifest,
        run=run,
        raw_manifest=raw_manifest,
        errors=errors,
        dataset=tuple(dataset),
        scores=tuple(paths),
        rubric_files=rubric_files,
        further=await further_files(request.further, request.further_store),
        servers=await read_servers(request.evaluation),
    )


async def draw_report(scored: ReportContent, folder: Path) -> Report:
    """The page and the numbers; pages of rows are written into `folder`."""
    request, manifest = scored.request, scored.manifest
    judged = [await asyncio.to_thread(_judge, scored, number) for number in range(len(scored.rubrics))]
    tables = [section.table for section in judged]
    gone_wrong = [
        *scored.errors.missing_indexes(),
        *(
            int(index)
            for section in judged
            for index in section.wrong.slice(0, MOST_ROWS)["_index_"].to_numpy()
        ),
    ]
    indexes, times = tables[0]["_index_"].to_numpy(), len(manifest.replications)
    chosen = choose(indexes, list(dict.fromkeys(gone_wrong)), times)
    paged = request.row_pages and not chosen.whole and len(indexes) <= MOST_PAGED
    questions = await asyncio.to_thread(question_reader, scored.dataset, None if paged else chosen.indexes)
    numbers = {name: number for number, name in enumerate(manifest.replications)}

    def draw(rows: pa.Table, scores: list[pa.Table]) -> RowColumns:
        return make_columns(rows, questions(rows["_index_"]), scores, numbers, scored.errors.rows)

    reading = Reading(tables, chosen.indexes)
    pages = RowPages(folder, request.rubrics, len(indexes), draw) if paged else None
    for number, entry in enumerate(manifest.files):
        local = await local_copy(request.evaluation, entry, folder, number)
        await asyncio.to_thread(reading.add, local, pages.add if pages else None)
        # One file of the output at a time lies on the local disk.
        local.unlink()
    if pages:
        await asyncio.to_thread(pages.close)
    sample = await asyncio.to_thread(draw, reading.rows, reading.scores)
    end = sample.fitting(0, len(sample), MOST_BYTES)
    sentence = choice_sentence(end, chosen, times)
    rows = Rows(
        sentence,
        sample.data(request.rubrics, 0, end),
        *((tuple(pages.paths), tuple(pages.names)) if pages else ()),
    )
    return await asyncio.to_thread(_draw, scored, judged, reading, rows, folder)


@dataclass(frozen=True)
class _RubricResults:
    """Results of one rubric."""

    table: pa.Table
    results: Results
    wrong: pa.Table


def _judge(scored: ReportContent, number: int) -> _RubricResults:
    table = memory_mapped(scored.scores[number])
    results = summarise(scored.rubrics[number], table, scored.request.reducers)
    return _RubricResults(table, results, wrong_questions(table))


def _notes(scored: ReportContent, judged: Sequence[_RubricResults], reading: Reading) -> tuple[str, ...]:
    """Return sentences about the answers and questions as a whole, which stand beside the first result."""
    # Answers that list likelihoods end at a limit of one token, as they should. lm-eval's rows are requests, and
    # several belong to one document.
    if mapping(_subject(scored).run, "identity").get("api") == "loglikelihood":
        return ()
    notes = (
        reading.tokens.silence.sentence,
        duplicates_note(scored.dataset, judged[0].table["_index_"].to_numpy()),
    )
    return tuple(note for note in notes if note)


def _draw(
    scored: ReportContent, judged: Sequence[_RubricResults], reading: Reading, rows: Rows, folder: Path
) -> Report:
    request = scored.request
    failed = reading.failures
    questions = _questions_shown(scored, judged, failed)
    texts = {index: readable_texts(question) for index, question in questions.items()}
    numbers = {name: number for number, name in enumerate(scored.manifest.replications)}
    parts = [
        RubricFailures(reference, section.table, section.wrong, path.name)
        for reference, section, path in zip(request.rubrics, judged, scored.scores, strict=True)
    ]
    totals = [pc.count_distinct(part.scores["_index_"]).as_py() for part in parts]
    notes = _notes(scored, judged, reading)
    sections = tuple(
        Section(
            rubric=part.rubric,
            results=section.results
            if number
            else replace(section.results, limits=(*notes, *section.results.limits)),
            failures=describe(part.scores, part.wrong, total, questions),
            scores=part.file,
        )
        for number, (part, section, total) in enumerate(zip(parts, judged, totals, strict=True))
    )
    several = len(sections) > 1
    extra_files = {path.name: path for path in scored.scores[1:]} | {
        path: folder / path for path in rows.pages
    }
    extra_files |= {f"{RUBRIC_FOLDER}/{path.name}": path for path in scored.rubric_files.values()}
    findings = Findings(
        sections=sections,
        failures=describe_together(parts, max(totals), questions) if several else sections[0].failures,
        errors=row_errors(failed, scored.errors, numbers, texts),
        tokens=reading.tokens,
        rows=rows,
        scores=tuple(
            file_entry(path, path.name, section.table.num_rows)
            for path, section in zip(scored.scores, judged, strict=True)
        ),
        pages=tuple(file_entry(folder / path, path) for path in rows.pages),
        records=tuple(_records(_records_of_run(scored))),
        errors_files=scored.errors.files,
        records_of_requests=tuple(_records(request.records)),
        rubric_files=tuple(
            file_entry(path, f"{RUBRIC_FOLDER}/{path.name}") for path in scored.rubric_files.values()
        ),
        further=scored.further,
    )
    document = make_document(_subject(scored), findings)
    lead = judged[0]
    return Report(
        page=page(document),
        numbers=numbers_json(document.numbers),
        scores=scored.scores[0],
        headline=lead.results.headline,
        rows=lead.table.num_rows,
        extra_files=extra_files,
        headlines=tuple(
            (reference, section.results.headline)
            for reference, section in zip(request.rubrics, judged, strict=True)
        ),
    )


def _questions_shown(
    scored: ReportContent, judged: Sequence[_RubricResults], failed: pa.Table
) -> dict[int, Json]:
    """Return the rows of the dataset that the page shows because their answers failed or are wrong, by index."""
    indexes = {index for index, _ in keys_shown(row_keys(failed), scored.errors)}
    for section in judged:
        indexes |= {*indexes_shown(section.wrong)}
    few = question_reader(scored.dataset, np.asarray(sorted(indexes), dtype=np.int64))(sorted(indexes))
    return {row["_index_"]: row for row in few.to_pylist(maps_as_pydicts="strict")}


def _records_of_run(scored: ReportContent) -> dict[str, bytes]:
    """Return the manifest of the output and the records next to it, by their paths."""
    run = {layout.RUN: scored.run} if scored.run else {}
    return {layout.MANIFEST: scored.raw_manifest, **run, **scored.servers}


def _subject(scored: ReportContent) -> Subject:
    request = scored.request
    return Subject(
        rubrics=request.rubrics,
        names=request.names,
        run=check_record(scored.run, scored.request.evaluation.url, layout.RUN) if scored.run else {},
        manifest=scored.manifest,
        dataset_view=request.dataset_view or (),
        evaluation_view=request.evaluation_view or (),
        reducers=request.reducers,
        group_by=request.group_by,
        cluster_by=request.cluster_by,
        row_pages=request.row_pages,
        spending=request.spending,
        servers=[orjson.loads(record) for record in scored.servers.values()],
        rubric_files={name: f"{RUBRIC_FOLDER}/{path.name}" for name, path in scored.rubric_files.items()},
    )


def score_files(rubrics: Sequence[str]) -> list[str]:
    """The file of each rubric's scores: `scores.parquet` of the first, then `scores-<name>.parquet`."""
    names: list[str] = []
    for number, reference in enumerate(rubrics):
        name = f"scores-{alias(reference.partition('?')[0])}" if number else "scores"
        taken = sum(
            section.removesuffix(".parquet").rpartition(".")[0] == name or section == f"{name}.parquet"
            for section in names
        )
        names.append(f"{name}.{taken + 1}.parquet" if taken else f"{name}.parquet")
    return names


def _records(contents: Mapping[str, bytes]) -> list[FileEntry]:
    return [
        FileEntry(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest(), rows=0)
        for path, data in contents.items()
    ]
