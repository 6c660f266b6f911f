"""Checks a report against the files it was made from: digests, the count of rows, every score and number again.

`steelyard report verify` calls it, and `verify_audit.py` for the reports of an audit. It first says what cannot be
checked, then gives one line for each check.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from steelyard.errors import UsageError
from steelyard.report.evidence.files import (
    Check,
    ReportFolders,
    check_digests,
    checks_of_edited,
    extra_files,
    fault,
    files_elsewhere,
    read_bytes,
)
from steelyard.report.evidence.lone_page import check_lone_page, check_page_numbers, how_to_get
from steelyard.report.evidence.recomputation import check_figures, check_row_counts, check_scores
from steelyard.report.evidence.report_statement import ATTESTATION, report_statement
from steelyard.report.evidence.signature import AttestationCheck, check_attestation, say_who_vouches
from steelyard.report.layout import NUMBERS, PAGE, SCORES
from steelyard.types import JsonValue

__all__ = ["Check", "NotAReport", "ReportFolders", "folder_of", "verify_report"]


class NotAReport(UsageError):
    """The file is no report's page, and no report.json."""


def folder_of(file: Path) -> Path:
    """Return the folder of a report from the path of its page or report.json. Raises NotAReport for any other file."""
    if file.name == NUMBERS or file.suffix in {".html", ".htm"}:
        if not file.is_file():
            raise NotAReport(f"report verify {file}: there is no such file")
        return file.parent
    raise NotAReport(f"report verify {file}: should be a {PAGE} or a {NUMBERS}")


@dataclass(frozen=True)
class _ReportFiles:
    """The files of a report that are here: page and report.json (`raw`) with their content."""

    page: bytes | None
    raw: bytes | None
    inputs: bool
    outputs: bool
    scores: bool
    attestation: bool

    @property
    def alone(self) -> bool:
        """Return whether the page is all there is: without record, inputs, outputs, scores or attestation."""
        return self.raw is None and not (self.inputs or self.outputs or self.scores or self.attestation)

    @property
    def whole(self) -> bool:
        return self.inputs and self.outputs


async def verify_report(
    folders: ReportFolders, key: Ed25519PublicKey | None = None, *, within_audit: bool = False
) -> AsyncIterator[Check]:
    """Yield every check: first what cannot be checked, then the others. Without a fault, the report is as it was made.

    `within_audit` leaves out what cannot be checked: the audit says it for all its reports.
    """
    async for check in checks_of_edited(NUMBERS, _checks(folders, key, within_audit)):
        yield check


async def _checks(
    folders: ReportFolders, key: Ed25519PublicKey | None, within_audit: bool
) -> AsyncIterator[Check]:
    files = _read_files(folders)
    if files.page is not None and files.alone:
        for check in check_lone_page(files.page, "report"):
            yield check
        return
    missing = [name for name, data in ((PAGE, files.page), (NUMBERS, files.raw)) if data is None]
    for name in missing:
        yield fault(f"{name}: is missing")
    if files.page is None or files.raw is None:
        return
    numbers = _parse_report(files.raw)
    if numbers is None:
        yield fault(f"{NUMBERS}: is not the JSON of a report")
        return
    statement = AttestationCheck(
        # Made when it is compared: of an edited report it may raise.
        folders.report,
        key,
        lambda: report_statement(files.page or b"", files.raw or b""),
    )
    if not within_audit:
        for check in (*say_who_vouches(statement), *say_what_is_unchecked(folders)):
            yield check
    yield check_page_numbers(files.page, files.raw, "report", NUMBERS)
    for check in check_digests(numbers["evidence"], folders):
        yield check
    async for check in _recompute(numbers, folders, files):
        yield check
    for check in check_attestation(statement):
        yield check


def say_what_is_unchecked(folders: ReportFolders) -> Iterator[Check]:
    """Name the parts that cannot be checked because their files are not here, and the files that belong to none."""
    files = _read_files(folders)
    numbers = None if files.raw is None else _parse_report(files.raw)
    if numbers is None:
        return
    yield from _missing_inputs(files, numbers)
    yield from files_elsewhere(numbers["evidence"], folders)
    yield from extra_files(numbers["evidence"], folders)


async def _recompute(numbers: JsonValue, folders: ReportFolders, files: _ReportFiles) -> AsyncIterator[Check]:
    if not files.whole:
        for check in check_figures(numbers, folders):
            yield check
        return
    counted = [check async for check in check_row_counts(folders)]
    for check in counted:
        yield check
    # Scores of rows that were put in or taken out prove nothing, whatever they are.
    if any(check.state == "fault" for check in counted):
        yield Check("scoring again: the outputs are not what their manifest says", "unchecked")
        return
    with tempfile.TemporaryDirectory(prefix="steelyard-verify-") as scratch:
        async for check in check_scores(numbers, folders, Path(scratch)):
            yield check


def _read_files(folders: ReportFolders) -> _ReportFiles:
    return _ReportFiles(
        page=read_bytes(folders.page),
        raw=read_bytes(folders.report / NUMBERS),
        inputs=folders.dataset.is_dir(),
        outputs=folders.evaluation.is_dir(),
        scores=(folders.report / SCORES).is_file(),
        attestation=(folders.report / ATTESTATION).is_file(),
    )


def _missing_inputs(files: _ReportFiles, numbers: JsonValue) -> Iterator[Check]:
    missing = [
        name
        for name, there in (
            ("the dataset (inputs/)", files.inputs),
            ("the outputs (outputs/)", files.outputs),
        )
        if not there
    ]
    if missing:
        yield Check(
            f"not here: {' and '.join(missing)}: no row can be counted or scored again. {how_to_get(numbers)}",
            "unchecked",
        )


def _parse_report(raw: bytes) -> JsonValue | None:
    try:
        numbers = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    there = isinstance(numbers, dict) and {"scoring", "evidence", "names", "datasetView"} <= numbers.keys()
    listed = there and all({"what", "path", "sha256"} <= entry.keys() for entry in numbers["evidence"])
    return numbers if listed else None
