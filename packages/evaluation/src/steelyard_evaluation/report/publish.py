"""Writes a report or an audit to its store, the page last: where the page is, everything else is, and nothing of an
earlier report.

The steps publish by attempt: nothing that an attempt does late changes what another one has published. On a machine of
one's own `publish` replaces a report.
"""

from typing import TYPE_CHECKING

from steelyard_evaluation.engine.epoch import Epoch
from steelyard_evaluation.engine.publication import Publication
from steelyard_evaluation.report.evidence.attestation import BadAttestation, envelope, key_ids, read_payload
from steelyard_evaluation.report.evidence.audit_statement import AUDIT_NUMBERS, AUDIT_PAGE, audit_statement
from steelyard_evaluation.report.evidence.report_statement import ATTESTATION, report_statement
from steelyard_evaluation.report.layout import NUMBERS, PAGE, SCORES
from steelyard_evaluation.report.page.document import RUBRIC_FOLDER
from steelyard_evaluation.report.page.row_pages import FOLDER
from steelyard_evaluation.storage.store import ObjectMissing, Store
from steelyard_schema.names import OWN_RECORDS
from steelyard_schema.steps import epoch_resource

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from steelyard_evaluation.report.audit.make import Audit
    from steelyard_evaluation.report.report import Report

_EARLIER = (f"{FOLDER}/page-", f"{RUBRIC_FOLDER}/", "scores-")
"""Beginnings of the paths of files that an earlier report may have had in addition."""


async def publish(report: "Report", store: Store, key: "Ed25519PrivateKey | None" = None) -> tuple[str, ...]:
    """Write scores, further files, `report.json`, `attestation.json` (signed by `key`), and `report.html` last.

    Without a key, the signature of an equal report is kept. Returns the keys whose signature is no longer there.
    """
    earlier = await _earlier_attestation(store)
    # From here on a crash leaves no page, and the next attempt writes everything again.
    await store.delete(PAGE)
    await _delete_stale(report, store)
    for path, file in report.extra_files.items():
        await store.put_file(path, file)
    await store.put_file(SCORES, report.scores)
    await store.put(NUMBERS, report.numbers)
    statement = report_statement(report.page, report.numbers)
    attestation = statement if key is None else envelope(statement, key)
    # Making an equal report again, such as by `eval score`, must not lose the signature of an absent person.
    if key is None and _is_attestation_of(earlier, statement):
        attestation = earlier
    await store.put(ATTESTATION, attestation)
    await store.put(PAGE, report.page)
    kept = key_ids(attestation)
    return tuple(name for name in key_ids(earlier) if name not in kept)


def _is_attestation_of(attestation: bytes, statement: bytes) -> bool:
    try:
        return read_payload(attestation)[0] == statement
    except BadAttestation:
        return False


def make_publication(epoch: Epoch) -> Publication:
    """Return what the attempts of one Report or Audit publish.

    Another resource may have the same place for its output: it replaces the output that is there.
    """
    return Publication(epoch, f"{OWN_RECORDS}published/{epoch_resource(epoch.name)}.json", _EARLIER)


async def publish_report(report: "Report", id: str, publication: Publication) -> None:
    """Publish the report of an attempt, not signed; the signature of an equal report is kept.

    Raises Fenced where a later attempt has begun, and EvaluationFailed where another one has published.
    """
    statement = report_statement(report.page, report.numbers)
    earlier = await _earlier_attestation(publication.epoch.store)
    attestation = earlier if _is_attestation_of(earlier, statement) else statement
    contents = {NUMBERS: report.numbers, ATTESTATION: attestation, PAGE: report.page}
    await publication.publish(
        {**report.extra_files, SCORES: report.scores, **contents}, {}, report.rows, report=id
    )


async def publish_audit(
    audit: "Audit", id: str, publication: Publication, key: "Ed25519PrivateKey | None" = None
) -> None:
    """Publish the audit of an attempt, signed by `key`: the scores, the reports' pages, `audit.json` and `index.html`.

    Raises Fenced where a later attempt has begun, and EvaluationFailed where another one has published.
    """
    statement = audit_statement(audit.page, audit.numbers)
    attestation = statement if key is None else envelope(statement, key)
    contents = {AUDIT_NUMBERS: audit.numbers, ATTESTATION: attestation, AUDIT_PAGE: audit.page}
    await publication.publish({**audit.scores, **audit.report_pages, **contents}, {}, audit=id)


async def _earlier_attestation(store: Store) -> bytes:
    # A missing attestation is no fault: there is none to compare with then.
    try:
        return await store.get(ATTESTATION)
    except ObjectMissing:
        return b""


async def _delete_stale(report: "Report", store: Store) -> None:
    """Delete files of an earlier report, which may have had more rubrics, or more pages of rows."""
    for prefix in _EARLIER:
        stale = [info.key async for info in store.list(prefix) if info.key not in report.extra_files]
        for path in stale:
            await store.delete(path)
