"""Checks an audit against its reports, and these against their own files, as far as the files are here.

`steelyard audit verify` calls it on an audit's folder: that of `audit download ID --evidence DIR` (`reports/<id>/`,
`datasets/<id>/`, `evaluations/<id>/`, `baseline/`), that of `audit save` (the page, its numbers, the scores kept), or
the page alone.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from steelyard.errors import UsageError
from steelyard.report.audit.make import Request, make_audit
from steelyard.report.audit.subject import Subject
from steelyard.report.evidence.audit_statement import (
    AUDIT_NUMBERS,
    AUDIT_PAGE,
    KEPT,
    audit_statement,
    report_page,
)
from steelyard.report.evidence.files import Check, ReportFolders, checks_of_edited, fault, read_bytes
from steelyard.report.evidence.lone_page import check_lone_page, check_page_numbers, how_to_get, parse_json
from steelyard.report.evidence.model_files import check_model
from steelyard.report.evidence.recomputation import UNREADABLE, compare_numbers, first_differing_byte
from steelyard.report.evidence.report_statement import ATTESTATION
from steelyard.report.evidence.signature import AttestationCheck, check_attestation, say_who_vouches
from steelyard.report.evidence.verify import say_what_is_unchecked, verify_report
from steelyard.report.layout import NUMBERS, PAGE
from steelyard.report.page import document
from steelyard.storage.digest import sha256_of
from steelyard.storage.files import FileStore
from steelyard.types import JsonValue

REPORT, BASELINE = "Report", "baseline"
_FIELDS = {"audit", "account", "auditProcedure", "system", "baseline", "requirements"}


class NotAnAudit(UsageError):
    """The file is no audit's page, and no audit.json."""


def audit_folder_of(file: Path) -> Path:
    """Return the folder of an audit from the path of its page or audit.json. Raises NotAnAudit for any other file."""
    if file.name != AUDIT_NUMBERS and file.suffix not in {".html", ".htm"}:
        raise NotAnAudit(f"audit verify {file}: should be an {AUDIT_PAGE} or an {AUDIT_NUMBERS}")
    if not file.is_file():
        raise NotAnAudit(f"audit verify {file}: there is no such file")
    return file.parent


async def verify_audit(
    folder: Path,
    key: Ed25519PublicKey | None = None,
    page_name: str = AUDIT_PAGE,
    *,
    model: Path | None = None,
    known: tuple[EntryPoint, ...] | None = None,
) -> AsyncIterator[Check]:
    """Yield every check: first what cannot be checked, then the audit, its reports, and the `model` that they asked.

    `known` are the rubrics that are known; by default those that are installed.
    """
    async for check in checks_of_edited(AUDIT_NUMBERS, _checks(folder, key, page_name, model, known)):
        yield check


async def _checks(
    folder: Path,
    key: Ed25519PublicKey | None,
    page_name: str,
    model: Path | None,
    known: tuple[EntryPoint, ...] | None,
) -> AsyncIterator[Check]:
    page, raw = read_bytes(folder / page_name), read_bytes(folder / AUDIT_NUMBERS)
    if page is not None and raw is None and not (folder / ATTESTATION).exists():
        for check in check_lone_page(page, "audit"):
            yield check
        return
    numbers = parse_json(raw)
    if page is None or raw is None or not _is_audit_json(numbers):
        yield fault(
            f"{page_name}: is missing"
            if page is None
            else f"{AUDIT_NUMBERS}: is {'missing' if raw is None else 'not the JSON of an audit'}"
        )
        return
    async for check in _verify_folder(
        numbers, folder, page, AttestationCheck(folder, key, lambda: audit_statement(page, raw))
    ):
        yield check
    for requirement in numbers["requirements"]:
        async for check in _check_report(requirement, folder, known):
            yield check
    if model is not None:
        for check in _check_model(numbers["requirements"], model):
            yield check


def _check_model(requirements: Sequence[JsonValue], model: Path) -> Iterator[Check]:
    """Compare the model with what each report names; reports of the same files share one reading of them."""
    served: dict[frozenset[tuple[str, str, str]], JsonValue] = {}
    for requirement in requirements:
        entries = [entry for entry in requirement["evidence"] if entry["what"] == document.MODEL]
        served.setdefault(frozenset(map(_evidence_key, entries)), requirement)
    for requirement in served.values():
        for check in check_model(requirement["evidence"], model):
            name = f"report {requirement['report'][:8]}…: " if len(served) > 1 else ""
            yield replace(check, what=f"{name}{check.what}")


async def _verify_folder(
    numbers: JsonValue, folder: Path, page: bytes, statement: AttestationCheck
) -> AsyncIterator[Check]:
    for check in (
        *say_who_vouches(statement),
        *_missing_parts(numbers, folder),
        *_extra_files(numbers, folder),
    ):
        yield check
    yield check_page_numbers(page, (folder / AUDIT_NUMBERS).read_bytes(), "audit", AUDIT_NUMBERS)
    for requirement in numbers["requirements"]:
        for check in _check_own_files(requirement, folder):
            yield check
    async for check in _recompute(numbers, folder, page):
        yield check
    for check in check_attestation(statement):
        yield check


def _extra_files(numbers: JsonValue, folder: Path) -> Iterator[Check]:
    """Name files and folders that belong to none of the audit's reports."""
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
                yield Check(f"extra file: {inside}: the audit does not name it", "unchecked")


def _is_audit_json(numbers: JsonValue) -> bool:
    if not isinstance(numbers, dict) or not numbers.keys() >= _FIELDS:
        return False
    needed = {"report", "evidence", "rows", "evaluation", "dataset"}
    return all(needed <= requirement.keys() for requirement in numbers["requirements"])


def _missing_parts(numbers: JsonValue, folder: Path) -> Iterator[Check]:
    """Name the reports, the parts of reports and the earlier audit that are not here."""
    how = how_to_get(numbers, "audit")
    for requirement in numbers["requirements"]:
        report = requirement["report"]
        if (folder / "reports" / report / NUMBERS).is_file():
            for check in say_what_is_unchecked(_report_folders(requirement, folder)):
                yield replace(check, what=f"report {report[:8]}…: {check.what}")
        else:
            yield Check(
                f"not here: reports/{report}/: no number of this report can be checked. {how}", "unchecked"
            )
    if numbers["baseline"] and not (folder / BASELINE / AUDIT_NUMBERS).is_file():
        yield Check(f"not here: {BASELINE}/: the comparison cannot be made again. {how}", "unchecked")


def _check_own_files(requirement: JsonValue, folder: Path) -> Iterator[Check]:
    """Check the scores and the report's page that the audit keeps itself."""
    report = requirement["report"]
    for entry in requirement["evidence"]:
        if entry["what"] == KEPT:
            yield _check_digest(folder, entry["path"], entry["sha256"])
        elif (entry["what"], entry["path"]) == (REPORT, PAGE):
            yield _check_digest(folder, report_page(report), entry["sha256"])
        elif entry["what"] == REPORT and (folder / "reports" / report / entry["path"]).is_file():
            yield _check_digest(folder, f"reports/{report}/{entry['path']}", entry["sha256"])


def _check_digest(folder: Path, path: str, sha256: str) -> Check:
    if not (folder / path).is_file():
        return fault(f"{path}: is missing")
    lies = sha256_of(folder / path)
    if lies != sha256:
        return fault(f"{path}: has the SHA-256 {lies[:12]}… instead of {sha256[:12]}…")
    return Check(f"{path}: SHA-256 {sha256[:12]}…")


async def _recompute(numbers: JsonValue, folder: Path, page: bytes) -> AsyncIterator[Check]:
    """Make the audit again from its reports and the earlier audit, and compare. Nothing if files for it are missing."""
    identities = [requirement["report"] for requirement in numbers["requirements"]]
    reports = {identity: folder / "reports" / identity for identity in identities}
    baseline = folder / BASELINE
    needed = [path / NUMBERS for path in reports.values()]
    needed += [baseline / AUDIT_NUMBERS] if numbers["baseline"] else []
    if not all(path.is_file() for path in needed):
        return  # _missing_parts says which
    request = Request(
        subject=_subject(numbers),
        reports={report: FileStore(path) for report, path in reports.items()},
        baseline=FileStore(baseline) if numbers["baseline"] else None,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="steelyard-verify-") as scratch:
            audit = await make_audit(request, Path(scratch))
            for check in compare_numbers(numbers, orjson.loads(audit.numbers), AUDIT_NUMBERS):
                yield check
            if audit.page == page:
                yield Check(f"{AUDIT_PAGE}: drawn again, is the same byte for byte")
            else:
                byte = first_differing_byte(page, audit.page)
                yield fault(f"{AUDIT_PAGE}: drawn again, differs from byte {byte} on")
    except UNREADABLE as error:
        yield fault(f"making the audit again: {error}")


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


def _report_folders(requirement: JsonValue, folder: Path) -> ReportFolders:
    """Return the folders of one report below that of an audit."""
    evaluation = folder / "evaluations" / (requirement["evaluation"] or "unknown")
    dataset = folder / "datasets" / (requirement["dataset"] or "unknown")
    return ReportFolders(folder / "reports" / requirement["report"], dataset, evaluation, evaluation)


async def _check_report(
    requirement: JsonValue, folder: Path, known: tuple[EntryPoint, ...] | None
) -> AsyncIterator[Check]:
    """Yield the checks of one report, each with the report's id."""
    report = requirement["report"]
    folders = replace(_report_folders(requirement, folder), known=known)
    if not (folders.report / NUMBERS).is_file():
        return
    yield _check_evidence(requirement, folders)
    async for check in verify_report(folders, within_audit=True):
        yield replace(check, what=f"report {report[:8]}…: {check.what}")


def _check_evidence(requirement: JsonValue, folders: ReportFolders) -> Check:
    """Compare the audit's list of the files that a report was made from with the report's own."""
    report = f"report {requirement['report'][:8]}…"
    numbers = parse_json(read_bytes(folders.report / NUMBERS))
    theirs = {
        _evidence_key(entry)
        for entry in (numbers or {}).get("evidence", ())
        if entry.get("what") != document.SCORES
    }
    ours = {
        _evidence_key(entry)
        for entry in requirement["evidence"]
        if entry["what"] not in {REPORT, KEPT, document.SCORES}
    }
    if theirs == ours:
        return Check(f"{report}: names the same {len(ours)} files as the audit")
    path = sorted(theirs ^ ours)[0][1]
    return fault(f"{report}: {path}: the audit and the report do not name the same file")


def _evidence_key(entry: JsonValue) -> tuple[str, str, str]:
    return str(entry.get("what")), str(entry.get("path")), str(entry.get("sha256"))
