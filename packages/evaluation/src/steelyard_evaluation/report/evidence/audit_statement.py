"""The in-toto statement about an audit: a pure function of its page and audit.json."""

import orjson

from steelyard_common.types import JsonValue
from steelyard_evaluation.report.evidence.attestation import CheckResults, NamedFile, statement
from steelyard_evaluation.report.evidence.report_statement import EVERY_ANSWER, EVERY_ROW

AUDIT_PAGE = "index.html"
AUDIT_NUMBERS = "audit.json"
KEPT = "Scores kept"


def report_page(report: str) -> str:
    """Return the path, in an audit's folder, of the page of one of its reports."""
    return f"reports/{report}/report.html"


def audit_statement(page: bytes | str, numbers: bytes, numbers_digest: str = "") -> bytes:
    """Return the statement about the audit with this page, or a page of this digest, and this audit.json.

    `numbers_digest` is the digest of its file, where `numbers` are not its very bytes.
    """
    audit: dict[str, JsonValue] = orjson.loads(numbers)
    subjects = [
        NamedFile.from_content(AUDIT_PAGE, page),
        NamedFile.from_content(AUDIT_NUMBERS, numbers_digest or numbers),
    ]
    configuration: list[NamedFile] = []
    for requirement in audit["requirements"]:
        report = requirement["report"]
        for entry in requirement["evidence"]:
            if entry["what"] == KEPT:
                subjects.append(NamedFile(entry["path"], entry["sha256"]))
                continue
            if (entry["what"], entry["path"]) == ("Report", "report.html"):
                # The audit keeps a copy of the report's page, so it is among what the statement vouches for.
                subjects.append(NamedFile(report_page(report), entry["sha256"]))
            configuration.append(
                NamedFile(f"report {report}: {entry['what']}: {entry['path']}", entry["sha256"])
            )
    if audit["baseline"]:
        file = audit["baseline"]["file"]
        configuration.append(NamedFile(f"{file['what']}: {file['path']}", file["sha256"]))
    return statement(subjects, configuration, _outcome(audit))


def _outcome(audit: JsonValue) -> CheckResults:
    """Return whether each report has every row and every answer. The results themselves are not judged."""
    passed: list[str] = []
    warned: list[str] = []
    failed: list[str] = []
    for requirement in audit["requirements"]:
        report, rows = requirement["report"], requirement["rows"]
        whole = rows["present"] == rows["total"]
        (passed if whole else failed).append(f"report {report}: {EVERY_ROW}")
        (warned if rows["errors"] else passed).append(f"report {report}: {EVERY_ANSWER}")
    return CheckResults(tuple(passed), tuple(warned), tuple(failed))
