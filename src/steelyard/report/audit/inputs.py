"""Reads what an audit is made of: reports with their scores, and the earlier audit. What differs from its digest is
refused.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.report.audit.numbers import Digest, EarlierAudit, EarlierReport, ReportNumbers, parsed
from steelyard.report.comparison.reports import ScoredReport
from steelyard.report.errors import ReportFailed
from steelyard.report.report import NUMBERS, PAGE, SCORES
from steelyard.report.scoring import CLUSTER
from steelyard.report.status import with_status
from steelyard.storage.digest import sha256_of
from steelyard.storage.store import Store

AUDIT = "audit.json"
COMPACT: list[tuple[str, pa.DataType]] = [
    ("_index_", pa.int64()),
    ("_replication_", pa.string()),
    ("label", pa.string()),
    ("prediction", pa.string()),
    ("correct", pa.bool_()),
    ("score", pa.float64()),
    ("status", pa.string()),
    ("_cluster_", pa.int64()),
]
"""The columns of scores that an audit keeps, so that a later one can compare itself with it.

Audits of earlier versions kept neither score nor status; `_cluster_` is there where rows hang together.
"""


@dataclass(frozen=True)
class AuditedReport:
    """One report: its numbers, its scores, and the digests of its own files."""

    id: str
    numbers: ReportNumbers
    scores: pa.Table
    files: tuple[Digest, ...]
    kept: Digest
    """The compact scores in the audit's output."""
    page: bytes = b""
    """The report's own page, which the audit keeps beside its own."""

    @property
    def scored(self) -> ScoredReport:
        data = tuple(sorted(entry.sha256 for entry in self.numbers.evidence if entry.what == "Dataset"))
        return ScoredReport(self.numbers.rubric, data, _view(self.numbers.datasetView), self.scores)


@dataclass(frozen=True)
class Baseline:
    """The earlier audit, and where its scores lie."""

    numbers: EarlierAudit
    file: Digest
    store: Store

    async def scored(self, report: EarlierReport, folder: Path) -> ScoredReport:
        path = await _checked(self.store, report.scores, folder, AUDIT)
        table = await asyncio.to_thread(pq.read_table, path)
        return ScoredReport(report.rubric, tuple(sorted(report.data)), _view(report.datasetView), table)


async def read_report(identity: str, store: Store, folder: Path) -> AuditedReport:
    """The report of this id; `folder` gets its compact scores."""
    raw = await store.get(NUMBERS)
    numbers = parsed(ReportNumbers, raw, f"{store.url}/{NUMBERS}")
    if (there := numbers.names.get("report", identity)) != identity:
        raise ReportFailed("BadReport", f"{store.url} holds the report {there}, not {identity}")
    described = next((entry for entry in numbers.evidence if entry.what == "Scores"), None)
    if described is None:
        message = f"{store.url}/{NUMBERS} names no digest of {SCORES}: make the report again"
        raise ReportFailed("BadReport", message)
    scores = await _checked(store, described, folder, NUMBERS)
    table = await asyncio.to_thread(_compact, scores)
    _check_rows(table, numbers, f"{store.url}/{SCORES}")
    kept = await asyncio.to_thread(_keep, table, folder, identity)
    page = await store.get(PAGE)
    files = (_digest("Report", NUMBERS, raw), _digest("Report", PAGE, page), described)
    return AuditedReport(identity, numbers, table, files, kept, page)


async def read_baseline(store: Store) -> Baseline:
    raw = await store.get(AUDIT)
    numbers = parsed(EarlierAudit, raw, f"{store.url}/{AUDIT}")
    return Baseline(numbers, _digest("Earlier audit", AUDIT, raw), store)


async def _checked(store: Store, file: Digest, folder: Path, said_by: str) -> Path:
    """The file on local disk; refused unless it is the one that is meant."""
    path = folder / f"{file.sha256}.parquet"
    await store.download(file.path, path)
    digest = await asyncio.to_thread(sha256_of, path)
    if digest != file.sha256:
        raise ReportFailed(
            "DigestMismatch",
            f"{store.url}/{file.path} is not the file that {said_by} names: "
            f"its SHA-256 is {digest} instead of {file.sha256}",
        )
    return path


def _compact(path: Path) -> pa.Table:
    try:
        table = with_status(pq.read_table(path))
        kept = [(name, kind) for name, kind in COMPACT if name in table.column_names or name != CLUSTER]
        fields = [table.schema.field(name).with_type(kind) for name, kind in kept]
        return table.select([name for name, _ in kept]).cast(
            pa.schema(fields).with_metadata(table.schema.metadata)
        )
    except (pa.ArrowException, ValueError, LookupError) as error:
        raise ReportFailed("BadReport", f"{SCORES} cannot be used: {error}") from error
    finally:
        path.unlink()


def _check_rows(table: pa.Table, numbers: ReportNumbers, where: str) -> None:
    """Scores of every row that is there, each once: rows may have been taken out, and all digested anew."""
    rows = table.group_by(["_index_", "_replication_"]).aggregate([]).num_rows
    if not rows == table.num_rows == numbers.rows.present:
        raise ReportFailed(
            "BadReport",
            f"{where} has the scores of {rows} rows in {table.num_rows} lines; "
            f"{NUMBERS} says that {numbers.rows.present} rows are there",
        )


def _keep(table: pa.Table, folder: Path, identity: str) -> Digest:
    name = f"scores/{identity}.parquet"
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path, compression="zstd")
    return Digest(what="Scores kept", path=name, size=path.stat().st_size, sha256=sha256_of(path))


def _digest(what: str, path: str, data: bytes) -> Digest:
    return Digest(what=what, path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def _view(pipeline: list[dict[str, object]] | list[Mapping[str, object]]) -> str:
    return orjson.dumps(pipeline, option=orjson.OPT_SORT_KEYS).decode() if pipeline else ""
