"""The in-toto statement about a report: a pure function of its page and report.json."""

import orjson

from steelyard_common.types import JsonValue
from steelyard_evaluation.report.evidence.attestation import CheckResults, NamedFile, statement
from steelyard_evaluation.report.page.document import PAGES, SCORES

ATTESTATION = "attestation.json"
MADE = frozenset({SCORES, PAGES})
"""Kinds of evidence that are part of the report; the report was made from all others."""
EVERY_ROW = "every row is there once"
EVERY_ANSWER = "every row has an answer"


def report_statement(page: bytes | str, numbers: bytes, numbers_digest: str = "") -> bytes:
    """Return the statement about the report with this page, or a page of this digest, and this report.json.

    `numbers_digest` is the digest of its file, where `numbers` are not its very bytes.
    """
    document: dict[str, JsonValue] = orjson.loads(numbers)
    subjects = [
        NamedFile.from_content("report.html", page),
        NamedFile.from_content("report.json", numbers_digest or numbers),
    ]
    subjects += [
        NamedFile(entry["path"], entry["sha256"]) for entry in document["evidence"] if entry["what"] in MADE
    ]
    # How it was scored is not a file, but the numbers depend on it: a digest stands for it.
    scoring = orjson.dumps([document["scoring"], document["datasetView"]], option=orjson.OPT_SORT_KEYS)
    configuration = [
        NamedFile(f"{entry['what']}: {entry['path']}", entry["sha256"])
        for entry in document["evidence"]
        if entry["what"] not in MADE
    ]
    configuration.append(
        NamedFile.from_content(f"scoring: {', '.join(document['scoring']['rubrics'])}", scoring)
    )
    return statement(subjects, configuration, _outcome(document))


def _outcome(numbers: JsonValue) -> CheckResults:
    """Return whether the report has every row, every answer and every score. The results themselves are not judged."""
    rows = numbers["rows"]
    passed: list[str] = []
    warned: list[str] = []
    failed: list[str] = []
    (failed if rows["missing"] or rows["duplicates"] else passed).append(EVERY_ROW)
    (warned if rows["errors"] else passed).append(EVERY_ANSWER)
    for rubric, result in zip(numbers["scoring"]["rubrics"], [numbers, *numbers["more"]], strict=True):
        left_out = (result.get("counts") or {}).get("leftOut", 0)
        (warned if left_out else passed).append(f"{rubric}: every row has a score")
    return CheckResults(tuple(passed), tuple(warned), tuple(failed))
