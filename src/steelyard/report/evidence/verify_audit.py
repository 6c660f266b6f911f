"""Checks an audit against the reports that it was made from, and these against theirs, as far as the files are here.

`steelyard audit verify` calls it on an audit's folder: what `audit download ID --evidence DIR` has brought
(`reports/<id>/`, `datasets/<id>/`, `evaluations/<id>/`, `baseline/`), what `audit save` has (the page, its numbers, the
scores kept), or the page alone.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from steelyard.errors import UsageError
from steelyard.report.audit.make import Audit, Request, make_audit
from steelyard.report.audit.subject import Subject
from steelyard.report.evidence.audit_statement import (
    AUDIT_NUMBERS,
    AUDIT_PAGE,
    KEPT,
    audit_statement,
    report_page,
)
from steelyard.report.evidence.files import Check, Places, fault, read_bytes
from steelyard.report.evidence.lone_page import how_to_get, page_alone, parsed, same_numbers
from steelyard.report.evidence.recomputation import UNREADABLE, compared, first_difference
from steelyard.report.evidence.report_statement import ATTESTATION
from steelyard.report.evidence.signature import Signature, attested, vouching
from steelyard.report.evidence.verify import unchecked, verify_report
from steelyard.report.page import document
from steelyard.report.report import NUMBERS, PAGE
from steelyard.storage.digest import sha256_of
from steelyard.storage.files import FileStore
from steelyard.types import JsonValue

REPORT, BASELINE = "Report", "baseline"
_FIELDS = {"audit", "account", "auditProcedure", "system", "baseline", "requirements"}


class NotAnAudit(UsageError):
    """The file is no audit's page, and no audit.json."""


def audit_folder_of(file: Path) -> Path:
    """The folder of an audit that one of its two files names; NotAnAudit for anything else."""
    if file.name != AUDIT_NUMBERS and file.suffix not in {".html", ".htm"}:
        raise NotAnAudit(f"audit verify {file}: should be an {AUDIT_PAGE} or an {AUDIT_NUMBERS}")
    if not file.is_file():
        raise NotAnAudit(f"audit verify {file}: there is no such file")
    return file.parent


async def verify_audit(
    folder: Path, key: Ed25519PublicKey | None = None, page_name: str = AUDIT_PAGE
) -> AsyncIterator[Check]:
    """Every check: first what cannot be checked, then the audit, then each of its reports."""
    page, raw = read_bytes(folder / page_name), read_bytes(folder / AUDIT_NUMBERS)
    if page is not None and raw is None and not (folder / ATTESTATION).exists():
        for check in page_alone(page, "audit"):
            yield check
        return
    numbers = parsed(raw)
    if page is None or raw is None or not _is_audit(numbers):
        yield fault(
            f"{page_name}: is missing"
            if page is None
            else f"{AUDIT_NUMBERS}: is {'missing' if raw is None else 'not the JSON of an audit'}"
        )
        return
    async for check in _whole(
        numbers, folder, page, Signature(folder, key, lambda: audit_statement(page, raw))
    ):
        yield check


async def _whole(numbers: JsonValue, folder: Path, page: bytes, statement: Signature) -> AsyncIterator[Check]:
    for check in (*vouching(statement), *_not_here(numbers, folder), *_extra(numbers, folder)):
        yield check
    yield same_numbers(page, (folder / AUDIT_NUMBERS).read_bytes(), "audit", AUDIT_NUMBERS)
    for requirement in numbers["requirements"]:
        for check in _own_files(requirement, folder):
            yield check
    async for check in _made_again(numbers, folder, page):
        yield check
    for check in attested(statement):
        yield check
    for requirement in numbers["requirements"]:
        async for check in _report(requirement, folder):
            yield check


def _extra(numbers: JsonValue, folder: Path) -> Iterator[Check]:
    """Files and folders that belong to none of the audit's reports."""
    requirements = numbers["requirements"]
    named = {
        "scores": {f"{requirement['report']}.parquet" for requirement in requirements},
        "reports": {requirement["report"] for requirement in requirements},
        "datasets": {requirement["dataset"] for requirement in requirements},
        "evaluations": {requirement["evaluation"] for requirement in requirements},
        "": {AUDIT_PAGE, AUDIT_NUMBERS, ATTESTATION, "scores", "reports", "datasets", "evaluations"}
        | ({BASELINE} if numbers["baseline"] else set()),
    }
    for place, names in named.items():
        for path in sorted((folder / place).glob("*")):
            if path.name not in names and (place or path.suffix in {".parquet", ".json", ".html", ""}):
                inside = path.relative_to(folder).as_posix()
                yield Check(f"extra file: {inside}: the audit does not name it", "left out")


def _is_audit(numbers: JsonValue) -> bool:
    if not isinstance(numbers, dict) or not numbers.keys() >= _FIELDS:
        return False
    needed = {"report", "evidence", "rows", "evaluation", "dataset"}
    return all(needed <= requirement.keys() for requirement in numbers["requirements"])


def _not_here(numbers: JsonValue, folder: Path) -> Iterator[Check]:
    """A check for each report that is not here, for parts of the others that are not, and for an earlier audit."""
    how = how_to_get(numbers, "audit")
    for requirement in numbers["requirements"]:
        report = requirement["report"]
        if (folder / "reports" / report / NUMBERS).is_file():
            for check in unchecked(_places(requirement, folder)):
                yield replace(check, what=f"report {report[:8]}…: {check.what}")
        else:
            yield Check(
                f"not here: reports/{report}/: no number of this report can be checked. {how}", "left out"
            )
    if numbers["baseline"] and not (folder / BASELINE / AUDIT_NUMBERS).is_file():
        yield Check(f"not here: {BASELINE}/: the comparison cannot be made again. {how}", "left out")


def _own_files(requirement: JsonValue, folder: Path) -> Iterator[Check]:
    """The scores and the report's page that the audit keeps itself."""
    report = requirement["report"]
    for entry in requirement["evidence"]:
        if entry["what"] == KEPT:
            yield _digest(folder, entry["path"], entry["sha256"])
        elif (entry["what"], entry["path"]) == (REPORT, PAGE):
            yield _digest(folder, report_page(report), entry["sha256"])
        elif entry["what"] == REPORT and (folder / "reports" / report / entry["path"]).is_file():
            yield _digest(folder, f"reports/{report}/{entry['path']}", entry["sha256"])


def _digest(folder: Path, path: str, sha256: str) -> Check:
    if not (folder / path).is_file():
        return fault(f"{path}: is missing")
    lies = sha256_of(folder / path)
    if lies != sha256:
        return fault(f"{path}: has the SHA-256 {lies[:12]}… instead of {sha256[:12]}…")
    return Check(f"{path}: SHA-256 {sha256[:12]}…")


async def _made_again(numbers: JsonValue, folder: Path, page: bytes) -> AsyncIterator[Check]:
    """The audit made once more from its reports and the earlier audit, and compared."""
    identities = [requirement["report"] for requirement in numbers["requirements"]]
    reports = {identity: folder / "reports" / identity for identity in identities}
    baseline = folder / BASELINE
    needed = [path / NUMBERS for path in reports.values()]
    needed += [baseline / AUDIT_NUMBERS] if numbers["baseline"] else []
    if not all(path.is_file() for path in needed):
        return  # `_not_here` has said it
    request = Request(
        subject=_subject(numbers),
        reports={report: FileStore(path) for report, path in reports.items()},
        baseline=FileStore(baseline) if numbers["baseline"] else None,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="steelyard-verify-") as scratch:
            made = await make_audit(request, Path(scratch))
            for check in _compared(numbers, page, made):
                yield check
    except UNREADABLE as error:
        yield fault(f"making the audit again: {error}")


def _compared(numbers: JsonValue, page: bytes, made: Audit) -> Iterator[Check]:
    yield from compared(numbers, orjson.loads(made.numbers), AUDIT_NUMBERS)
    if made.page == page:
        yield Check(f"{AUDIT_PAGE}: drawn again, is the same byte for byte")
    else:
        yield fault(f"{AUDIT_PAGE}: drawn again, differs from byte {first_difference(page, made.page)} on")


def _subject(numbers: JsonValue) -> Subject:
    return Subject(
        id=numbers["audit"],
        account=numbers["account"],
        procedure=numbers["auditProcedure"],
        service=numbers["system"]["inferenceService"],
        procedure_name=numbers.get("auditProcedureName", ""),
        use_case=numbers.get("useCase", ""),
        author=numbers.get("author", ""),
    )


def _places(requirement: JsonValue, folder: Path) -> Places:
    """The folders of one report in that of an audit."""
    evaluation = folder / "evaluations" / (requirement["evaluation"] or "unknown")
    dataset = folder / "datasets" / (requirement["dataset"] or "unknown")
    return Places(folder / "reports" / requirement["report"], dataset, evaluation, evaluation)


async def _report(requirement: JsonValue, folder: Path) -> AsyncIterator[Check]:
    """Every check of one of the reports, under its name."""
    report, places = requirement["report"], _places(requirement, folder)
    if not (places.report / NUMBERS).is_file():
        return
    yield _same_evidence(requirement, places)
    async for check in verify_report(places, part=True):
        yield replace(check, what=f"report {report[:8]}…: {check.what}")


def _same_evidence(requirement: JsonValue, places: Places) -> Check:
    """The audit's list of what went in against the report's own."""
    report = f"report {requirement['report'][:8]}…"
    numbers = parsed(read_bytes(places.report / NUMBERS))
    theirs = {
        _key(entry) for entry in (numbers or {}).get("evidence", ()) if entry.get("what") != document.SCORES
    }
    ours = {
        _key(entry)
        for entry in requirement["evidence"]
        if entry["what"] not in {REPORT, KEPT, document.SCORES}
    }
    if theirs == ours:
        return Check(f"{report}: names the same {len(ours)} files as the audit")
    path = sorted(theirs ^ ours)[0][1]
    return fault(f"{report}: {path}: the audit and the report do not name the same file")


def _key(entry: JsonValue) -> tuple[str, str, str]:
    return str(entry.get("what")), str(entry.get("path")), str(entry.get("sha256"))
