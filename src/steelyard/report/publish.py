"""Writes a report or an audit to its store, the page last: where the page is, everything else is, and nothing of an
earlier report.
"""

from typing import TYPE_CHECKING

from steelyard.report.evidence.attestation import BadAttestation, envelope, key_ids, read_payload
from steelyard.report.evidence.audit_statement import AUDIT_NUMBERS, AUDIT_PAGE, audit_statement
from steelyard.report.evidence.report_statement import ATTESTATION, report_statement
from steelyard.report.layout import NUMBERS, PAGE, SCORES
from steelyard.report.page.document import RUBRIC_FOLDER
from steelyard.report.page.row_pages import FOLDER
from steelyard.storage.store import ObjectMissing, Store

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from steelyard.report.audit.make import Audit
    from steelyard.report.report import Report


async def publish(report: "Report", store: Store, key: "Ed25519PrivateKey | None" = None) -> tuple[str, ...]:
    """Write scores, further files, `report.json`, `attestation.json` (signed by `key`), and `report.html` last.

    Without a key, the signature of an equal report is kept. Returns the keys whose signature is no longer there.
    """
    # No attestation yet is no fault: then there is none to compare with.
    try:
        earlier = await store.get(ATTESTATION)
    except ObjectMissing:
        earlier = b""
    # From here on a crash leaves no page, and the next attempt writes everything again.
    await store.delete(PAGE)
    await _delete_stale(report, store)
    for path, file in report.beside.items():
        await store.put_file(path, file)
    await store.put_file(SCORES, report.scores)
    await store.put(NUMBERS, report.numbers)
    statement = report_statement(report.page, report.numbers)
    attestation = statement if key is None else envelope(statement, key)
    # Making an equal report again, such as by `eval score`, must not lose the signature of somebody who is
    # not here.
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


async def publish_audit(audit: "Audit", store: Store, key: "Ed25519PrivateKey | None" = None) -> None:
    """Write scores, the reports' pages, `audit.json`, `attestation.json` (signed by `key`), and `index.html` last."""
    # From here on a crash leaves no page beside the files of another audit.
    await store.delete(AUDIT_PAGE)
    for path, file in audit.scores.items():
        await store.put_file(path, file)
    for path, page in audit.report_pages.items():
        await store.put(path, page)
    await store.put(AUDIT_NUMBERS, audit.numbers)
    statement = audit_statement(audit.page, audit.numbers)
    await store.put(ATTESTATION, statement if key is None else envelope(statement, key))
    await store.put(AUDIT_PAGE, audit.page)


async def _delete_stale(report: "Report", store: Store) -> None:
    """Delete files of an earlier report, which may have had more rubrics, or more pages of rows."""
    for prefix in (f"{FOLDER}/page-", f"{RUBRIC_FOLDER}/", "scores-"):
        stale = [info.key async for info in store.list(prefix) if info.key not in report.beside]
        for path in stale:
            await store.delete(path)
