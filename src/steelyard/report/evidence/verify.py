"""Checks a report against the files it was made from: digests, every row counted, every score and number once more.

`steelyard report verify` calls it, and `verify_audit.py` for each report of an audit. What cannot be checked is said
first; then one line for each thing that was looked at.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from steelyard.errors import UsageError
from steelyard.report.evidence.files import Check, Places, digests, elsewhere, extra_files, fault, read_bytes
from steelyard.report.evidence.lone_page import how_to_get, page_alone, same_numbers
from steelyard.report.evidence.recomputation import recounted, scored_again, summarised_again
from steelyard.report.evidence.report_statement import ATTESTATION, statement_of
from steelyard.report.evidence.signature import Signature, attested, vouching
from steelyard.report.report import NUMBERS, PAGE, SCORES
from steelyard.types import JsonValue

__all__ = ["Check", "NotAReport", "Places", "folder_of", "verify_report"]


class NotAReport(UsageError):
    """The file is no report's page, and no report.json."""


def folder_of(file: Path) -> Path:
    """The folder of a report that one of its two files names; NotAReport for anything else."""
    if file.name == NUMBERS or file.suffix in {".html", ".htm"}:
        if not file.is_file():
            raise NotAReport(f"report verify {file}: there is no such file")
        return file.parent
    raise NotAReport(f"report verify {file}: should be a {PAGE} or a {NUMBERS}")


@dataclass(frozen=True)
class _Found:
    """The parts of a report that are there: page and report.json (`raw`) with their content."""

    page: bytes | None
    raw: bytes | None
    inputs: bool
    outputs: bool
    scores: bool
    attestation: bool

    @property
    def alone(self) -> bool:
        """The page and nothing that belongs to it."""
        return self.raw is None and not (self.inputs or self.outputs or self.scores or self.attestation)

    @property
    def whole(self) -> bool:
        return self.inputs and self.outputs


async def verify_report(
    places: Places, key: Ed25519PublicKey | None = None, *, part: bool = False
) -> AsyncIterator[Check]:
    """Every check: first what cannot be checked, then the rest in order. No fault: the report is as it was made.

    As `part` of an audit, without what cannot be checked: the audit says that of all its reports (`unchecked`).
    """
    findings = _look(places)
    if findings.page is not None and findings.alone:
        for check in page_alone(findings.page, "report"):
            yield check
        return
    missing = [name for name, data in ((PAGE, findings.page), (NUMBERS, findings.raw)) if data is None]
    for name in missing:
        yield fault(f"{name}: is missing")
    if findings.page is None or findings.raw is None:
        return
    numbers = _numbers(findings.raw)
    if numbers is None:
        yield fault(f"{NUMBERS}: is not the JSON of a report")
        return
    statement = Signature(places.report, key, lambda: statement_of(findings.page or b"", findings.raw or b""))
    if not part:
        for check in (*vouching(statement), *unchecked(places)):
            yield check
    yield same_numbers(findings.page, findings.raw, "report", NUMBERS)
    for check in digests(numbers["evidence"], places):
        yield check
    async for check in _made_again(numbers, places, findings):
        yield check
    for check in attested(statement):
        yield check


def unchecked(places: Places) -> Iterator[Check]:
    """A line for each part that cannot be checked because its files are not here, and for files that belong to none."""
    findings = _look(places)
    numbers = None if findings.raw is None else _numbers(findings.raw)
    if numbers is None:
        return
    yield from _not_here(findings, numbers)
    yield from elsewhere(numbers["evidence"], places)
    yield from extra_files(numbers["evidence"], places)


async def _made_again(numbers: JsonValue, places: Places, findings: _Found) -> AsyncIterator[Check]:
    if not findings.whole:
        for check in summarised_again(numbers, places):
            yield check
        return
    counted = [check async for check in recounted(places)]
    for check in counted:
        yield check
    if any(check.state == "fault" for check in counted):
        yield Check("scoring again: the outputs are not what their manifest says", "left out")
        return
    with tempfile.TemporaryDirectory(prefix="steelyard-verify-") as scratch:
        async for check in scored_again(numbers, places, Path(scratch)):
            yield check


def _look(places: Places) -> _Found:
    return _Found(
        page=read_bytes(places.page),
        raw=read_bytes(places.report / NUMBERS),
        inputs=places.dataset.is_dir(),
        outputs=places.evaluation.is_dir(),
        scores=(places.report / SCORES).is_file(),
        attestation=(places.report / ATTESTATION).is_file(),
    )


def _not_here(findings: _Found, numbers: JsonValue) -> Iterator[Check]:
    missing = [
        name
        for name, there in (
            ("the dataset (inputs/)", findings.inputs),
            ("the outputs (outputs/)", findings.outputs),
        )
        if not there
    ]
    if missing:
        yield Check(
            f"not here: {' and '.join(missing)}: no row can be counted or scored again. {how_to_get(numbers)}",
            "left out",
        )


def _numbers(raw: bytes) -> JsonValue | None:
    try:
        numbers = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    there = isinstance(numbers, dict) and {"scoring", "evidence", "names", "datasetView"} <= numbers.keys()
    listed = there and all({"what", "path", "sha256"} <= entry.keys() for entry in numbers["evidence"])
    return numbers if listed else None
