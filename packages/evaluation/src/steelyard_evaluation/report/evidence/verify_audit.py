"""Checks an audit against its reports, and these against their own files, as far as the files are here.

`steelyard audit verify` calls it on an audit's folder: that of `audit download ID --evidence DIR` (`reports/<id>/`,
`datasets/<id>/`, `evaluations/<id>/`, `baseline/`), that of `audit save` (the page, its numbers, the scores kept), or
the page alone.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_evaluation.report.audit.make import Request, make_audit
from steelyard_evaluation.report.audit.subject import Subject
from steelyard_evaluation.report.evidence.attestation import read_stated_digest
from steelyard_evaluation.report.evidence.audit_statement import (
    AUDIT_NUMBERS,
    AUDIT_PAGE,
    KEPT,
    audit_statement,
    report_page,
)
from steelyard_evaluation.report.evidence.files import (
    Check,
    ReportFolders,
    check_digests,
    checks_of_edited,
    fault,
    find_left_out,
    leads_out,
    read_bytes,
)
from steelyard_evaluation.report.evidence.lone_page import (
    check_lone_page,
    check_page_numbers,
    location_sentence,
    parse_json,
)
from steelyard_evaluation.report.evidence.model_files import check_model
from steelyard_evaluation.report.evidence.recomputation import (
    UNREADABLE,
    compare_numbers,
    first_differing_byte,
)
from steelyard_evaluation.report.evidence.report_statement import ATTESTATION
from steelyard_evaluation.report.evidence.signature import (
    AttestationCheck,
    check_attestation,
    say_who_vouches,
)
from steelyard_evaluation.report.evidence.verify import say_what_is_unchecked, verify_report
from steelyard_evaluation.report.layout import NUMBERS, PAGE, SCORES
from steelyard_evaluation.report.page import document
from steelyard_evaluation.report.page.page import numbers_inside
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_evaluation.storage.files import FileStore

REPORT, BASELINE = "Report", "baseline"
_FIELDS = {"audit", "account", "auditProcedure", "system", "baseline", "requirements"}


class NotAnAudit(UsageError):
    """The file is neither an audit's page nor an audit.json."""


def find_audit_folder(file: Path) -> Path:
    """Return the folder of an audit from the path of its page or audit.json. Raises NotAnAudit for any other file."""
    if not file.exists():
        raise NotAnAudit(f"audit verify {file}: there is no such file")
    if file.is_file() and (file.name == AUDIT_NUMBERS or file.suffix in {".html", ".htm"}):
        return file.parent
    raise NotAnAudit(f"audit verify {file}: should be an {AUDIT_PAGE} or an {AUDIT_NUMBERS}")


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


@dataclass(frozen=True)
class _AuditFiles:
    """The files of an audit that are here: page and audit.json (`raw`) with their content."""

    folder: Path
    page: bytes | None
    raw: bytes | None

    @property
    def alone(self) -> bool:
        """Return whether the page is all there is."""
        beside = (self.folder / ATTESTATION, self.folder / "reports", self.folder / "scores")
        return self.raw is None and not any(path.exists() for path in beside)

    @property
    def own(self) -> Mapping[str, bytes | None]:
        return {AUDIT_PAGE: self.page, AUDIT_NUMBERS: self.raw}

    @property
    def with_evidence(self) -> bool:
        """Return whether the reports are here, from which the audit is made again."""
        return any((self.folder / "reports").glob(f"*/{NUMBERS}"))

    @property
    def numbers(self) -> bytes | None:
        """Return audit.json; where it is not here, the numbers that the page has inside, which are the same."""
        if self.raw is not None or self.page is None:
            return self.raw
        return numbers_inside(self.page, "audit")

    def missing(self) -> Iterator[Check]:
        if self.page is None:
            yield Check(
                f"not here: {AUDIT_PAGE}: what people read is not compared with the numbers", "unchecked"
            )
        if self.raw is None:
            yield Check(
                f"not here: {AUDIT_NUMBERS}: its numbers are read from {AUDIT_PAGE}, which has them",
                "unchecked",
            )


async def _checks(
    folder: Path,
    key: Ed25519PublicKey | None,
    page_name: str,
    model: Path | None,
    known: tuple[EntryPoint, ...] | None,
) -> AsyncIterator[Check]:
    files = _AuditFiles(folder, read_bytes(folder / page_name), read_bytes(folder / AUDIT_NUMBERS))
    if files.page is not None and files.alone:
        for check in check_lone_page(files.page, "audit"):
            yield check
        return
    if files.with_evidence and (missing := [name for name, data in files.own.items() if data is None]):
        for name in missing:
            yield fault(f"{name}: is missing")
        return
    raw = files.numbers
    numbers = parse_json(raw)
    if raw is None or not _is_audit_json(numbers):
        name = AUDIT_PAGE if files.raw is None else AUDIT_NUMBERS
        yield fault(f"{name}: is not the JSON of an audit")
        return
    page = files.page
    statement = AttestationCheck(
        folder,
        key,
        lambda payload: audit_statement(
            read_stated_digest(payload, AUDIT_PAGE) if page is None else page,
            raw,
            read_stated_digest(payload, AUDIT_NUMBERS) if files.raw is None else "",
        ),
    )
    async for check in _verify_folder(numbers, files, statement):
        yield check
    for requirement in numbers["requirements"]:
        async for check in _check_report(requirement, folder, known):
            yield check
    if model is not None:
        for check in _check_model(numbers["requirements"], model):
            yield check


def check_audit_files(folder: Path) -> Iterator[Check]:
    """Compare the page with audit.json, and the audit's own files that are here with their digests."""
    page, raw = read_bytes(folder / AUDIT_PAGE), read_bytes(folder / AUDIT_NUMBERS)
    numbers = parse_json(raw)
    if page is None or raw is None or not _is_audit_json(numbers):
        yield fault(f"{folder}: {AUDIT_PAGE} and {AUDIT_NUMBERS} of an audit are needed")
        return
    yield check_page_numbers(page, raw, "audit", AUDIT_NUMBERS)
    for requirement in numbers["requirements"]:
        yield from _check_own_files(requirement, folder)


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
    numbers: JsonValue, files: _AuditFiles, statement: AttestationCheck
) -> AsyncIterator[Check]:
    folder, page = files.folder, files.page
    for check in (
        *say_who_vouches(statement),
        *files.missing(),
        *_missing_parts(numbers, folder),
        *_extra_files(numbers, folder),
    ):
        yield check
    if page is not None and files.raw is not None:
        yield check_page_numbers(page, files.raw, "audit", AUDIT_NUMBERS)
    for requirement in numbers["requirements"]:
        for check in _check_own_files(requirement, folder):
            yield check
    if numbers["baseline"] and (folder / BASELINE / AUDIT_NUMBERS).is_file():
        yield _check_digest(folder, f"{BASELINE}/{AUDIT_NUMBERS}", numbers["baseline"]["file"]["sha256"])
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
    how = location_sentence(numbers, "audit")
    for requirement in numbers["requirements"]:
        report = requirement["report"]
        if (folder / "reports" / report / NUMBERS).is_file():
            for check in say_what_is_unchecked(_report_folders(requirement, folder)):
                yield replace(check, what=f"report {report[:8]}…: {check.what}")
        else:
            yield Check(
                f"not here: reports/{report}/: no number of this report can be checked. {how}", "unchecked"
            )
    kept = [
        entry["path"]
        for part in numbers["requirements"]
        for entry in part["evidence"]
        if entry["what"] == KEPT
    ]
    for place in dict.fromkeys(Path(path).parent.as_posix() for path in kept):
        if not (folder / place).is_dir():
            yield Check(f"not here: {place}/: the scores that the audit keeps are not compared", "unchecked")
    if not _has_baseline(numbers, folder):
        yield Check(f"not here: {BASELINE}/: the comparison cannot be made again. {how}", "unchecked")


def _has_baseline(numbers: JsonValue, folder: Path) -> bool:
    """Return whether the earlier audit is here with its scores; an audit that names none needs none."""
    baseline = folder / BASELINE
    return not numbers["baseline"] or (
        (baseline / AUDIT_NUMBERS).is_file() and (baseline / "scores").is_dir()
    )


def _check_own_files(requirement: JsonValue, folder: Path) -> Iterator[Check]:
    """Check the scores and the report's page that the audit keeps itself, unless their folder is left out."""
    report = requirement["report"]
    for entry in requirement["evidence"]:
        if entry["what"] == KEPT:
            path, needed = entry["path"], True
        elif entry["what"] == REPORT:
            page = entry["path"] == PAGE
            path, needed = report_page(report) if page else f"reports/{report}/{entry['path']}", page
        else:
            continue
        if (folder / path).parent.is_dir() if needed else (folder / path).is_file():
            yield _check_digest(folder, path, entry["sha256"])


def _check_digest(folder: Path, path: str, sha256: str) -> Check:
    if leads_out(path):
        return fault(f"{path}: leads out of the folder")
    if not (folder / path).is_file():
        return fault(f"{path}: is missing")
    lies = file_sha256(folder / path)
    if lies != sha256:
        return fault(f"{path}: has the SHA-256 {lies[:12]}… instead of {sha256[:12]}…")
    return Check(f"{path}: SHA-256 {sha256[:12]}…")


async def _recompute(numbers: JsonValue, folder: Path, page: bytes | None) -> AsyncIterator[Check]:
    """Make the audit again from its reports and the earlier audit, and compare. Nothing if files for it are missing."""
    identities = [requirement["report"] for requirement in numbers["requirements"]]
    reports = {identity: folder / "reports" / identity for identity in identities}
    baseline = folder / BASELINE
    needed = [path / name for path in reports.values() for name in (NUMBERS, PAGE, SCORES)]
    if not all(path.is_file() for path in needed) or not _has_baseline(numbers, folder):
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
            if page is None:
                return
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
        own = {REPORT, KEPT, document.SCORES}
        evidence = [entry for entry in requirement["evidence"] if entry["what"] not in own]
        for check in check_digests(evidence, folders, find_left_out(evidence, folders)):
            yield replace(check, what=f"report {report[:8]}…: {check.what}")
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
