"""Puts a report or an audit into storage: whoever sees the page finds the rest, and nothing of an earlier report."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from steelyard.report.attest import envelope
from steelyard.report.attest_audit import AUDIT_NUMBERS, AUDIT_PAGE, audit_statement
from steelyard.report.attest_report import ATTESTATION, statement_of
from steelyard.report.audit import Audit
from steelyard.report.document import RUBRIC_FOLDER
from steelyard.report.report import NUMBERS, PAGE, SCORES, Report
from steelyard.report.rows_pages import FOLDER
from steelyard.storage.store import Store


async def publish(report: Report, store: Store, key: Ed25519PrivateKey | None = None) -> None:
    """`scores.parquet`, what is beside, `report.json`, `attestation.json` (signed by `key`), and `report.html` last."""
    await store.delete(PAGE)
    await _clear(report, store)
    for path, file in report.beside.items():
        await store.put_file(path, file)
    await store.put_file(SCORES, report.scores)
    await store.put(NUMBERS, report.numbers)
    statement = statement_of(report.page, report.numbers)
    await store.put(ATTESTATION, statement if key is None else envelope(statement, key))
    await store.put(PAGE, report.page)


async def publish_audit(audit: Audit, store: Store, key: Ed25519PrivateKey | None = None) -> None:
    """Scores, the reports' pages, `audit.json`, `attestation.json` (signed by `key`), and `index.html` last."""
    for path, file in audit.scores.items():
        await store.put_file(path, file)
    for path, page in audit.report_pages.items():
        await store.put(path, page)
    await store.put(AUDIT_NUMBERS, audit.numbers)
    statement = audit_statement(audit.page, audit.numbers)
    await store.put(ATTESTATION, statement if key is None else envelope(statement, key))
    await store.put(AUDIT_PAGE, audit.page)


async def _clear(report: Report, store: Store) -> None:
    """An earlier report may have had more rubrics, or more rows than the page holds."""
    for prefix in (f"{FOLDER}/page-", f"{RUBRIC_FOLDER}/", "scores-"):
        stale = [info.key async for info in store.list(prefix) if info.key not in report.beside]
        for path in stale:
            await store.delete(path)
