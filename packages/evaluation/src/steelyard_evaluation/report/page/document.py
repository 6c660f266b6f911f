"""Puts results, failures and evidence together as the page and report.json show them."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from steelyard_common.types import shorten
from steelyard_evaluation.engine.adapters import AdapterSpec
from steelyard_evaluation.engine.manifest import FileEntry, Manifest
from steelyard_evaluation.report.page.calls import call_lines, calls_numbers, spending_lines
from steelyard_evaluation.report.page.page import FORMAT, Document, Evidence, Failures, Section
from steelyard_evaluation.report.page.row_errors import RowErrors
from steelyard_evaluation.report.page.row_scan import Tokens
from steelyard_evaluation.report.page.rows import Rows
from steelyard_evaluation.report.results import Results
from steelyard_evaluation.report.rubrics.answer import to_text
from steelyard_evaluation.report.wording import count

MOST_TEXT = 120
ASKED, DATASET, OUTPUTS = "What was asked", "Dataset", "Outputs"
RECORD, ERRORS, SCORES, PAGES = "Record of the run", "Row errors", "Scores", "Pages of rows"
RUBRIC_FILES = "Read by a rubric"
MODEL = "Model"
FURTHER = "Answers "
"""Kinds of files in a report's evidence. Further files are those that the outputs were made from: answers before they
were judged, and answers of each judge.
"""
RUBRIC_FOLDER = "rubric-files"
NAMES = {
    "report": "Report",
    "evaluation": "Evaluation",
    "dataset": "Dataset",
    "inferenceService": "Inference service",
    "model": "Model",
    "account": "Account",
}


@dataclass(frozen=True)
class Subject:
    """Subject of a report: the rubrics as requested, ids and names, run.json and the manifest.

    The views are how the rubrics saw both sides; empty: as they are.
    """

    rubrics: tuple[str, ...]
    names: Mapping[str, str]
    run: Mapping[str, Any]
    manifest: Manifest
    dataset_view: Sequence[AdapterSpec] = ()
    evaluation_view: Sequence[AdapterSpec] = ()
    reducers: tuple[str, ...] = ()
    group_by: tuple[str, ...] = ()
    cluster_by: str | None = None
    row_pages: bool = False
    spending: Mapping[str, Any] | None = None
    servers: Sequence[Mapping[str, Any]] = ()
    """Records of the model servers that were asked, where they are known."""
    rubric_files: Mapping[str, str] = field(default_factory=dict)
    """The report's copies of the files that rubrics have read, by the name that the request had for each."""


@dataclass(frozen=True)
class Findings:
    """Findings of a report: per rubric, about rows without an answer, tokens and rows; and the files that
    hold them.
    """

    sections: tuple[Section, ...]
    failures: Failures
    errors: RowErrors
    tokens: Tokens
    rows: Rows
    scores: tuple[FileEntry, ...]
    pages: tuple[FileEntry, ...]
    records: tuple[FileEntry, ...]
    errors_files: tuple[FileEntry, ...]
    records_of_requests: tuple[FileEntry, ...] = ()
    rubric_files: tuple[FileEntry, ...] = ()
    further: tuple[tuple[str, FileEntry], ...] = ()


def make_document(subject: Subject, findings: Findings) -> Document:
    display_names = {**read_names(subject.run), **subject.names}
    names = {title: display_names[key] for key, title in NAMES.items() if display_names.get(key)}
    evidence = tuple(_evidence(subject, findings))
    return Document(
        title=f"Evaluation report: {findings.sections[0].results.headline}",
        facts=tuple(_facts(subject, findings)),
        sections=findings.sections,
        failures=findings.failures,
        errors=findings.errors,
        tokens=(
            *_tokens(findings.tokens),
            *call_lines(subject.manifest, findings.tokens),
            *spending_lines(subject.spending),
        ),
        rows=findings.rows,
        evidence=evidence,
        identifiers=tuple(names.items()),
        settings=tuple(
            flat(
                {
                    **{key: value for key, value in subject.run.items() if key != "schemaVersion"},
                    "servers": [dict(server) for server in subject.servers],
                }
            )
        ),
        numbers=_numbers(subject, findings, evidence),
    )


def _facts(subject: Subject, findings: Findings) -> Iterator[tuple[str, str]]:
    """The first view: the system, the data, the time, the extent, and for whom."""
    rows, names = subject.manifest.rows, {**read_names(subject.run), **subject.names}
    yield "System", display_name(names, "inferenceService")
    if names.get("model") or names.get("modelName"):
        yield "Model", display_name(names, "model")
    for server in subject.servers:
        yield "Served by", server_text(server)
    questions = sum(entry.rows for entry in subject.manifest.inputs)
    yield "Data", f"{display_name(names, 'dataset')}, {count(questions)} rows"
    times = len(subject.manifest.replications)
    yield "Asked", "each row once" if times == 1 else f"each row {times} times"
    if date := run_date(subject.run):
        yield "Run on", date
    yield "Rubric" if len(subject.rubrics) == 1 else "Rubrics", ", ".join(subject.rubrics)
    unanswered = f", {count(rows.errors)} without an answer" if rows.errors else ""
    yield "Verified", f"{count(rows.present)} of {count(rows.total)} rows{unanswered}"
    yield from _counts(findings.sections)
    if names.get("account"):
        yield "Account", names["account"]


def _counts(sections: Sequence[Section]) -> Iterator[tuple[str, str]]:
    """Yield the rows by status, once where all rubrics have the same."""
    counted = [(section.rubric, counts) for section in sections if (counts := section.results.counts)]
    alike = len({(counts.noun, str(counts)) for _, counts in counted}) == 1
    for rubric, counts in counted[:1] if alike else counted:
        yield f"{counts.noun.capitalize()}s{'' if alike else f', {rubric}'}", str(counts)


def server_text(server: Mapping[str, Any]) -> str:
    """Describe a model server in a line: program, version, precision, hardware."""
    program = " ".join(filter(None, (server["runner"], server["version"] or "of an unknown version")))
    precision = f"computing in {server['precision']}" if server["precision"] != "auto" else ""
    models = dict.fromkeys(server["gpuModels"])
    count = server["gpus"]
    gpus = f"{count} GPU{'s' if (count or 0) > 1 else ''}" + (f" ({', '.join(models)})" if models else "")
    # A provider does not say what its model runs on.
    hardware = "" if count is None else gpus if count else "on processors"
    return ", ".join(filter(None, (program, precision, hardware)))


def read_names(run: Mapping[str, Any]) -> dict[str, str]:
    """Names for people that run.json holds in addition to the ids: a report's resource has ids alone."""
    service = run.get("identity", {}).get("inferenceService") or {}
    model = service.get("model") or {}
    facts = {
        "inferenceServiceName": service.get("name"),
        "modelName": model.get("name"),
        "model": model.get("id"),
    }
    return {key: name for key, name in facts.items() if name}


def run_date(run: Mapping[str, Any]) -> str | None:
    """The day and time of the run, never of the rendering: `21 November 2026, 06:15 UTC`."""
    for key in ("created", "started"):
        if isinstance(run.get(key), str):
            try:
                time = datetime.fromisoformat(run[key])
            except ValueError:
                continue
            return f"{time.day} {time:%B %Y, %H:%M} UTC"
    return None


def display_name(names: Mapping[str, str], key: str) -> str:
    """Return the name, or the beginning of the id, which stands in full under Evidence."""
    name, identity = names.get(f"{key}Name"), names.get(key, "")
    return name or (f"{identity[:8]}…" if len(identity) == 32 else identity) or "unknown"


def _tokens(tokens: Tokens) -> Iterator[tuple[str, str]]:
    """Yield the token counts that the service reported; nothing where it reported none."""
    if tokens.prompt is not None:
        yield "Tokens of prompts", count(tokens.prompt)
    if tokens.completion is not None:
        yield "Tokens of answers", count(tokens.completion)
        if tokens.responses:
            yield "Tokens per answer", f"{tokens.completion / tokens.responses:,.1f} on average"
    if tokens.longest is not None:
        yield "Longest answer", f"{count(tokens.longest)} tokens"


def _evidence(subject: Subject, findings: Findings) -> Iterator[Evidence]:
    manifest = subject.manifest
    for entry in findings.records_of_requests:
        yield Evidence(ASKED, entry.path, entry.size, entry.sha256)
    for entry in manifest.inputs:
        yield Evidence(DATASET, entry.path, entry.size, entry.sha256)
    for volume in subject.run.get("identity", {}).get("volumes") or ():
        for file in volume.get("files") or ():
            yield Evidence(volume["source"]["kind"], file["path"], file["size"], file["sha256"])
    for entry in manifest.files:
        yield Evidence(OUTPUTS, entry.path, entry.size, entry.sha256)
    for entry in findings.records:
        yield Evidence(RECORD, entry.path, entry.size, entry.sha256)
    for entry in findings.errors_files:
        yield Evidence(ERRORS, entry.path, entry.size, entry.sha256)
    for what, entry in findings.further:
        yield Evidence(what, entry.path, entry.size, entry.sha256)
    for entry in findings.rubric_files:
        yield Evidence(RUBRIC_FILES, entry.path, entry.size, entry.sha256)
    for entry in findings.scores:
        yield Evidence(SCORES, entry.path, entry.size, entry.sha256)
    for entry in findings.pages:
        yield Evidence(PAGES, entry.path, entry.size, entry.sha256)


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as `client.batchSize: 1000`, long ones cut: report.json has them whole."""
    if name in {"identity.inputs", "identity.volumes"}:  # stand under Evidence
        return
    if isinstance(value, Mapping) and value:
        for key in sorted(value):
            yield from flat(value[key], f"{name}.{key}" if name else key)
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            yield from flat(item, f"{name}[{number}]")
    elif name and value is not None and value not in ({}, []):
        text = ", ".join(map(to_text, value)) if isinstance(value, list) else to_text(value)
        yield name, shorten(text, MOST_TEXT)


def _numbers(subject: Subject, findings: Findings, evidence: Sequence[Evidence]) -> dict[str, Any]:
    """report.json: all that the page says, for machines. At the top is what the first rubric found."""
    lead = findings.sections[0]
    return {
        "schemaVersion": FORMAT,
        "rubric": subject.rubrics[0],
        "names": dict(subject.names),
        "datasetView": _view(subject.dataset_view),
        "scoring": {
            "rubrics": list(subject.rubrics),
            "reducers": list(subject.reducers),
            "groupBy": list(subject.group_by),
            "clusterBy": subject.cluster_by,
            "evaluationView": _view(subject.evaluation_view),
            "rowPages": subject.row_pages,
            **({"files": dict(subject.rubric_files)} if subject.rubric_files else {}),
        },
        "run": dict(subject.run),
        # Only where it is known, so that reports of earlier versions are drawn again byte for byte.
        **({"servers": [dict(server) for server in subject.servers]} if subject.servers else {}),
        "rows": subject.manifest.rows.model_dump(),
        **_section_findings(lead),
        "more": [
            {"rubric": section.rubric, "scores": section.scores, **_section_findings(section)}
            for section in findings.sections[1:]
        ],
        "rowErrors": findings.errors.numbers(),
        "tokens": findings.tokens.numbers(),
        "calls": calls_numbers(subject.manifest),
        "spending": subject.spending,
        "rowsShown": {
            "rows": findings.rows.row_count,
            "sentence": findings.rows.sentence,
            "pages": list(findings.rows.pages),
        },
        "evidence": [dataclasses.asdict(item) for item in evidence],
    }


def _section_findings(section: Section) -> dict[str, Any]:
    results, failures = section.results, section.failures
    return {
        "failures": {
            "total": failures.total,
            "shown": [
                {"index": f.index, "label": f.label, "said": list(f.said), "wrong": f.wrong, "asked": f.times}
                for f in failures.shown
            ],
        },
        **results_json(results),
    }


def results_json(results: Results) -> dict[str, Any]:
    """All that report.json has from a rubric's scores alone: headline, counts, figures, limits and further numbers."""
    return {
        "headline": results.headline,
        "counts": results.counts.numbers() if results.counts else None,
        "bounds": results.bounds.numbers() if results.bounds else None,
        "metrics": [
            {
                "name": metric.name,
                "title": metric.title,
                "unit": metric.unit,
                "scale": metric.scale,
                **dataclasses.asdict(metric.estimate),
            }
            for metric in results.metrics
        ],
        "limits": list(results.limits),
        **results.numbers,
    }


def _view(pipeline: Sequence[AdapterSpec]) -> list[dict[str, Any]]:
    return [{"kind": step.kind, "configuration": step.configuration} for step in pipeline]
