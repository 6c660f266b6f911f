"""Puts results, failures and evidence together as the page and report.json show them."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from steelyard.evaluation.adapters import AdapterSpec
from steelyard.evaluation.manifest import FileEntry, Manifest
from steelyard.report.page import FORMAT, Document, Evidence, Failures
from steelyard.report.results import Results
from steelyard.report.wording import count

MOST_TEXT = 120
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
    """What was scored: the rubric as it was asked for, ids and names, run.json, the manifest, and the scores' file.

    `dataset_view` is how the rubric saw the dataset; empty: as it is.
    """

    rubric: str
    names: Mapping[str, str]
    run: Mapping[str, Any]
    manifest: Manifest
    scores: FileEntry
    dataset_view: Sequence[AdapterSpec] = ()


def make_document(
    subject: Subject, results: Results, failures: Failures, records: Sequence[FileEntry]
) -> Document:
    told = {**named_by_run(subject.run), **subject.names}
    names = {title: told[key] for key, title in NAMES.items() if told.get(key)}
    evidence = tuple(_evidence(subject, records))
    return Document(
        title=f"Evaluation report: {results.headline}",
        facts=tuple(_facts(subject)),
        results=results,
        failures=failures,
        evidence=evidence,
        identifiers=tuple(names.items()),
        settings=tuple(flat({key: value for key, value in subject.run.items() if key != "schemaVersion"})),
        numbers=_numbers(subject, results, failures, evidence),
    )


def _facts(subject: Subject) -> Iterator[tuple[str, str]]:
    """The first view: what was evaluated, on what, when, how much of it, for whom."""
    rows, names = subject.manifest.rows, {**named_by_run(subject.run), **subject.names}
    yield "System", named(names, "inferenceService")
    if names.get("model") or names.get("modelName"):
        yield "Model", named(names, "model")
    questions = sum(entry.rows for entry in subject.manifest.inputs)
    yield "Data", f"{named(names, 'dataset')}, {count(questions)} rows"
    times = len(subject.manifest.replications)
    yield "Asked", "each row once" if times == 1 else f"each row {times} times"
    if date := run_date(subject.run):
        yield "Run on", date
    yield "Rubric", subject.rubric
    unanswered = f", {count(rows.errors)} without an answer" if rows.errors else ""
    yield "Verified", f"{count(rows.present)} of {count(rows.total)} rows{unanswered}"
    if names.get("account"):
        yield "Account", names["account"]


def named_by_run(run: Mapping[str, Any]) -> dict[str, str]:
    """Names for people that run.json holds beside the ids: a report's resource has ids alone."""
    service = run.get("identity", {}).get("inferenceService") or {}
    model = service.get("model") or {}
    found = {
        "inferenceServiceName": service.get("name"),
        "modelName": model.get("name"),
        "model": model.get("id"),
    }
    return {key: name for key, name in found.items() if name}


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


def named(names: Mapping[str, str], key: str) -> str:
    """Its name; else the beginning of its id, which stands in full under Evidence."""
    name, identity = names.get(f"{key}Name"), names.get(key, "")
    return name or (f"{identity[:8]}…" if len(identity) == 32 else identity) or "unknown"


def _evidence(subject: Subject, records: Sequence[FileEntry]) -> Iterator[Evidence]:
    manifest = subject.manifest
    for entry in manifest.inputs:
        yield Evidence("Dataset", entry.path, entry.size, entry.sha256)
    for volume in subject.run.get("identity", {}).get("volumes") or ():
        for file in volume.get("files") or ():
            yield Evidence(volume["source"]["kind"], file["path"], file["size"], file["sha256"])
    for entry in manifest.files:
        yield Evidence("Outputs", entry.path, entry.size, entry.sha256)
    for entry in records:
        yield Evidence("Record of the run", entry.path, entry.size, entry.sha256)
    scores = subject.scores
    yield Evidence("Scores", scores.path, scores.size, scores.sha256)


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
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        yield name, text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"


def _numbers(
    subject: Subject, results: Results, failures: Failures, evidence: Sequence[Evidence]
) -> dict[str, Any]:
    """report.json: all that the page says, for machines."""
    return {
        "schemaVersion": FORMAT,
        "rubric": subject.rubric,
        "headline": results.headline,
        "names": dict(subject.names),
        "datasetView": [
            {"kind": each.kind, "configuration": each.configuration} for each in subject.dataset_view
        ],
        "run": dict(subject.run),
        "rows": subject.manifest.rows.model_dump(),
        "metrics": [
            {"name": m.name, "title": m.title, "unit": m.unit, **dataclasses.asdict(m.estimate)}
            for m in results.metrics
        ],
        "limits": list(results.limits),
        "failures": {
            "total": failures.total,
            "shown": [
                {"index": f.index, "label": f.label, "said": list(f.said), "wrong": f.wrong, "asked": f.asked}
                for f in failures.shown
            ],
        },
        "evidence": [dataclasses.asdict(item) for item in evidence],
        **results.numbers,
    }
