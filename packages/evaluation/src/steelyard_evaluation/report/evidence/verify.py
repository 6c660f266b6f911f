"""Checks a report against the files it was made from: digests, the count of rows, every score and number again.

`steelyard report verify` calls it, and `verify_audit.py` for the reports of an audit. It first says what cannot be
checked, then gives one line for each check.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from steelyard_common.errors import UsageError
from steelyard_common.types import JsonValue
from steelyard_common.whole_files import TooLarge
from steelyard_evaluation.report.evidence.attestation import read_stated_digest
from steelyard_evaluation.report.evidence.files import (
    Check,
    LeftOut,
    ReportFolders,
    check_digests,
    checks_of_edited,
    extra_files,
    fault,
    files_elsewhere,
    find_left_out,
    read_bytes,
    say_what_is_left_out,
)
from steelyard_evaluation.report.evidence.lone_page import (
    check_lone_page,
    check_page_numbers,
    location_sentence,
    parse_json,
)
from steelyard_evaluation.report.evidence.recomputation import check_figures, check_row_counts, check_scores
from steelyard_evaluation.report.evidence.report_statement import ATTESTATION, report_statement
from steelyard_evaluation.report.evidence.signature import (
    AttestationCheck,
    check_attestation,
    say_who_vouches,
)
from steelyard_evaluation.report.layout import NUMBERS, PAGE, SCORES
from steelyard_evaluation.report.page import document
from steelyard_evaluation.report.page.page import numbers_inside

__all__ = [
    "Check",
    "NotAReport",
    "ReportFolders",
    "check_files",
    "find_report_folder",
    "read_numbers",
    "verify_report",
]


class NotAReport(UsageError):
    """The file is neither a report's page nor a report.json."""


def find_report_folder(file: Path) -> Path:
    """Return the folder of a report from the path of its page or report.json. Raises NotAReport for any other file."""
    if not file.exists():
        raise NotAReport(f"report verify {file}: there is no such file")
    if file.is_file() and (file.name == NUMBERS or file.suffix in {".html", ".htm"}):
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

    @property
    def numbers(self) -> bytes | None:
        """Return report.json; where it is not here, the numbers that the page has inside, which are the same."""
        if self.raw is not None or self.page is None:
            return self.raw
        return numbers_inside(self.page)


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
    if files.whole and missing:
        for name in missing:
            yield fault(f"{name}: is missing")
        return
    raw = files.numbers
    numbers = None if raw is None else _parse_report(raw)
    if raw is None or numbers is None:
        yield fault(f"{NUMBERS if files.raw is not None else PAGE}: is not the JSON of a report")
        return
    statement = AttestationCheck(
        # Made when it is compared: of an edited report it may raise.
        folders.report,
        key,
        lambda payload: report_statement(
            read_stated_digest(payload, PAGE) if files.page is None else files.page,
            raw,
            read_stated_digest(payload, NUMBERS) if files.raw is None else "",
        ),
    )
    if not within_audit:
        for check in (*say_who_vouches(statement), *say_what_is_unchecked(folders)):
            yield check
    if files.page is not None and files.raw is not None:
        yield check_page_numbers(files.page, files.raw, "report", NUMBERS)
    left = find_left_out(numbers["evidence"], folders)
    for check in check_digests(numbers["evidence"], folders, left):
        yield check
    async for check in _recompute(numbers, folders, left):
        yield check
    for check in check_attestation(statement):
        yield check


def say_what_is_unchecked(folders: ReportFolders) -> Iterator[Check]:
    """Name the parts that cannot be checked because their files are not here, and the files that belong to none."""
    files, numbers = _read_files(folders), read_numbers(folders)
    if numbers is None:
        return
    if files.page is None:
        yield Check(f"not here: {PAGE}: what people read is not compared with the numbers", "unchecked")
    if files.raw is None:
        yield Check(f"not here: {NUMBERS}: its numbers are read from {PAGE}, which has them", "unchecked")
    yield from _missing_inputs(files, numbers, folders.evaluation.name)
    yield from say_what_is_left_out(find_left_out(numbers["evidence"], folders), folders)
    yield from files_elsewhere(numbers["evidence"], folders)
    yield from extra_files(numbers["evidence"], folders)


async def _recompute(numbers: JsonValue, folders: ReportFolders, left: LeftOut) -> AsyncIterator[Check]:
    if any(what in left for what in (document.DATASET, document.OUTPUTS, document.RECORD)):
        for check in check_figures(numbers, folders):
            yield check
        return
    counted = [check async for check in check_row_counts(folders)]
    for check in counted:
        yield check
    # Scores of rows that were put in or taken out prove nothing, whatever they are.
    if any(check.state == "fault" for check in counted):
        yield Check(
            "scoring again: would prove nothing, because the rows are not those that were asked", "unchecked"
        )
        return
    # Pages of rows are made from the others. Without any of these, the report cannot be made again.
    if any(what != document.PAGES for what in left.files):
        for check in check_figures(numbers, folders):
            yield check
        return
    with tempfile.TemporaryDirectory(prefix="steelyard-verify-") as scratch:
        pages = left.files.get(document.PAGES, ())
        async for check in check_scores(numbers, folders, Path(scratch), pages):
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


def read_numbers(folders: ReportFolders) -> JsonValue | None:
    """Return the numbers of a report, from report.json or from its page; None where neither has any that are read."""
    try:
        raw = _read_files(folders).numbers
        return None if raw is None else _parse_report(raw)
    except TooLarge:  # its verification says so
        return None


def check_files(folders: ReportFolders) -> Iterator[Check]:
    """Compare the page with report.json, and every file that is here with its digest: what a signature vouches for."""
    files, numbers = _read_files(folders), read_numbers(folders)
    if files.page is None or files.raw is None or numbers is None:
        yield fault(f"{folders.report}: {PAGE} and {NUMBERS} of a report are needed")
        return
    yield check_page_numbers(files.page, files.raw, "report", NUMBERS)
    yield from check_digests(numbers["evidence"], folders, find_left_out(numbers["evidence"], folders))


def _missing_inputs(files: _ReportFiles, numbers: JsonValue, outputs: str) -> Iterator[Check]:
    missing = [
        name
        for name, there in (
            ("the dataset (inputs/)", files.inputs),
            (f"the outputs ({outputs}/)", files.outputs),
        )
        if not there
    ]
    if missing:
        yield Check(
            f"not here: {' and '.join(missing)}: no row can be counted or scored again. {location_sentence(numbers)}",
            "unchecked",
        )


def _parse_report(raw: bytes) -> JsonValue | None:
    numbers = parse_json(raw)
    there = isinstance(numbers, dict) and {"scoring", "evidence", "names", "datasetView"} <= numbers.keys()
    there = there and isinstance(numbers["evidence"], list)
    listed = there and all(
        isinstance(entry, dict)
        and all(isinstance(entry.get(name), str) for name in ("what", "path", "sha256"))
        for entry in numbers["evidence"]
    )
    return numbers if listed else None
