"""The statement about an audit: a function of its page and audit.json alone, as a report's is of its own."""

import hashlib
from collections.abc import Iterator

import orjson

from steelyard.report.evidence.attestation import Named, Outcome, statement
from steelyard.report.evidence.report_statement import EVERY_ANSWER, EVERY_ROW
from steelyard.types import JsonValue

AUDIT_PAGE = "index.html"
AUDIT_NUMBERS = "audit.json"
KEPT = "Scores kept"


def report_page(report: str) -> str:
    """Path in an audit's folder of the page of a report that it was made from."""
    return f"reports/{report}/report.html"


def audit_statement(page: bytes, numbers: bytes) -> bytes:
    """The statement about the audit that these two are."""
    audit: dict[str, JsonValue] = orjson.loads(numbers)
    subjects = [Named(AUDIT_PAGE, _sha256(page)), Named(AUDIT_NUMBERS, _sha256(numbers))]
    configuration: list[Named] = []
    for requirement in audit["requirements"]:
        report = requirement["report"]
        for entry in requirement["evidence"]:
            if entry["what"] == KEPT:
                subjects.append(Named(entry["path"], entry["sha256"]))
                continue
            if (entry["what"], entry["path"]) == ("Report", "report.html"):
                subjects.append(Named(report_page(report), entry["sha256"]))
            configuration.append(Named(f"report {report}: {entry['what']}: {entry['path']}", entry["sha256"]))
    if audit["baseline"]:
        file = audit["baseline"]["file"]
        configuration.append(Named(f"{file['what']}: {file['path']}", file["sha256"]))
    return statement(subjects, configuration, _outcome(audit))


def _outcome(audit: JsonValue) -> Outcome:
    """Passed where a report stands on every row; what is good enough depends on the use."""
    passed: list[str] = []
    warned: list[str] = []
    failed: list[str] = []
    for report, rows in _rows(audit):
        whole = rows["present"] == rows["total"]
        (passed if whole else failed).append(f"report {report}: {EVERY_ROW}")
        (warned if rows["errors"] else passed).append(f"report {report}: {EVERY_ANSWER}")
    return Outcome(tuple(passed), tuple(warned), tuple(failed))


def _rows(audit: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    for requirement in audit["requirements"]:
        yield requirement["report"], requirement["rows"]


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
