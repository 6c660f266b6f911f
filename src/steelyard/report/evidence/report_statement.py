"""Content of the attestation beside a report: a function of the page and report.json alone."""

import hashlib
from collections.abc import Iterator

import orjson

from steelyard.report.evidence.attestation import Named, Outcome, statement
from steelyard.report.page.document import PAGES, SCORES
from steelyard.types import JsonValue

ATTESTATION = "attestation.json"
MADE = frozenset({SCORES, PAGES})
"""Files that come with the report; all other evidence is what it was made from."""
EVERY_ROW = "every row is there once"
EVERY_ANSWER = "every row has an answer"


def statement_of(page: bytes, numbers: bytes) -> bytes:
    """The statement about the report that these two are."""
    document: dict[str, JsonValue] = orjson.loads(numbers)
    subjects = [Named("report.html", _sha256(page)), Named("report.json", _sha256(numbers))]
    made = [entry for entry in document["evidence"] if entry["what"] in MADE]
    subjects += [Named(entry["path"], entry["sha256"]) for entry in made]
    scoring = orjson.dumps([document["scoring"], document["datasetView"]], option=orjson.OPT_SORT_KEYS)
    configuration = [_named(entry) for entry in document["evidence"] if entry["what"] not in MADE]
    configuration.append(Named(f"scoring: {', '.join(document['scoring']['rubrics'])}", _sha256(scoring)))
    return statement(subjects, configuration, _outcome(document))


def _outcome(numbers: JsonValue) -> Outcome:
    """A figure is neither passed nor failed: what is, is whether it stands on every row."""
    rows = numbers["rows"]
    passed: list[str] = []
    warned: list[str] = []
    failed: list[str] = []
    (failed if rows["missing"] or rows["duplicates"] else passed).append(EVERY_ROW)
    (warned if rows["errors"] else passed).append(EVERY_ANSWER)
    for rubric, result in zip(numbers["scoring"]["rubrics"], _found(numbers), strict=True):
        left_out = (result.get("counts") or {}).get("leftOut", 0)
        (warned if left_out else passed).append(f"{rubric}: every row has a score")
    return Outcome(tuple(passed), tuple(warned), tuple(failed))


def _found(numbers: JsonValue) -> Iterator[JsonValue]:
    yield numbers
    yield from numbers["more"]


def _named(evidence: JsonValue) -> Named:
    return Named(f"{evidence['what']}: {evidence['path']}", evidence["sha256"])


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
