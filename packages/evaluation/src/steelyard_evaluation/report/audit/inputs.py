"""Reads the inputs of an audit: reports with their scores, and the earlier audit. A file with another digest than the
recorded one is refused.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard_common.bounded_parquet import read_table
from steelyard_evaluation.report.audit.numbers import (
    Digest,
    EarlierAudit,
    EarlierReport,
    ReportNumbers,
    parse_numbers,
)
from steelyard_evaluation.report.comparison.reports import ScoredReport
from steelyard_evaluation.report.errors import ReportFailed
from steelyard_evaluation.report.layout import CLUSTER, NUMBERS, PAGE, SCORES
from steelyard_evaluation.report.status import with_status
from steelyard_evaluation.storage.checked import without_checks
from steelyard_evaluation.storage.digest import file_sha256
from steelyard_evaluation.storage.store import Store, display_name

AUDIT = "audit.json"
KEPT_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("_index_", pa.int64()),
    ("_replication_", pa.string()),
    ("label", pa.string()),
    ("prediction", pa.string()),
    ("correct", pa.bool_()),
    ("score", pa.float64()),
    ("status", pa.string()),
    ("_cluster_", pa.int64()),
]
"""Columns of scores that an audit keeps for a comparison with a later one.

Audits of earlier versions kept neither score nor status. `_cluster_` is there if rows have clusters.
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
    """The report's own page, which the audit keeps in addition to its own page."""

    @property
    def comparison_report(self) -> ScoredReport:
        """The report as a comparison needs it."""
        data = tuple(sorted(entry.sha256 for entry in self.numbers.evidence if entry.what == "Dataset"))
        lead = self.numbers.metrics[0] if self.numbers.metrics else None
        scale = None if lead is None else (0.0, 1.0) if lead.unit == "share" else lead.scale
        return ScoredReport(
            self.numbers.rubric, data, _view_json(self.numbers.datasetView), self.scores, scale
        )


@dataclass(frozen=True)
class Baseline:
    """The earlier audit, and the store of its scores."""

    numbers: EarlierAudit
    file: Digest
    store: Store

    async def make_scored_report(self, report: EarlierReport, folder: Path) -> ScoredReport:
        """Return one of its reports as a comparison needs it; `folder` gets a copy of the scores."""
        path = await _download_checked(self.store, report.scores, folder, AUDIT)
        table = await asyncio.to_thread(read_table, path)
        return ScoredReport(report.rubric, tuple(sorted(report.data)), _view_json(report.datasetView), table)


async def read_report(identity: str, store: Store, folder: Path) -> AuditedReport:
    """Return the report of this id, and write its compact scores into `folder`. Raises ReportFailed."""
    raw = await store.get(NUMBERS)
    numbers = parse_numbers(ReportNumbers, raw, display_name(store.url, NUMBERS))
    # Each file carries its own digest, so a whole report put in another's place would pass all of them.
    if (stored := numbers.names.get("report", identity)) != identity:
        raise ReportFailed(
            "BadReport", f"{display_name(store.url)} holds the report {stored}, not {identity}"
        )
    entry = next((entry for entry in numbers.evidence if entry.what == "Scores"), None)
    if entry is None:
        message = f"{display_name(store.url, NUMBERS)} names no digest of {SCORES}: make the report again"
        raise ReportFailed("BadReport", message)
    scores = await _download_checked(store, entry, folder, NUMBERS)
    table = await asyncio.to_thread(_read_compact, scores)
    _check_rows(table, numbers, display_name(store.url, SCORES))
    kept = await asyncio.to_thread(_write_kept, table, folder, identity)
    page = await store.get(PAGE)
    files = (_compute_digest("Report", NUMBERS, raw), _compute_digest("Report", PAGE, page), entry)
    return AuditedReport(identity, numbers, table, files, kept, page)


async def read_baseline(store: Store) -> Baseline:
    raw = await store.get(AUDIT)
    numbers = parse_numbers(EarlierAudit, raw, display_name(store.url, AUDIT))
    return Baseline(numbers, _compute_digest("Earlier audit", AUDIT, raw), store)


async def _download_checked(store: Store, file: Digest, folder: Path, named_by: str) -> Path:
    """Download the file; ReportFailed unless it has the digest that the document `named_by` names."""
    # Named by digest: two audits have files of the same name, and the path in a document is not to be
    # trusted.
    path = folder / f"{file.sha256}.parquet"
    await without_checks(store).download(file.path, path)
    digest = await asyncio.to_thread(file_sha256, path)
    if digest != file.sha256:
        raise ReportFailed(
            "DigestMismatch",
            f"{display_name(store.url, file.path)} is not the file that {named_by} names: "
            f"its SHA-256 is {digest} instead of {file.sha256}",
        )
    return path


def _read_compact(path: Path) -> pa.Table:
    try:
        table = with_status(read_table(path))
        # Texts of questions and answers stay behind: an audit is published, and its data need not be.
        kept = [(name, kind) for name, kind in KEPT_COLUMNS if name in table.column_names or name != CLUSTER]
        fields = [table.schema.field(name).with_type(kind) for name, kind in kept]
        return table.select([name for name, _ in kept]).cast(
            pa.schema(fields).with_metadata(table.schema.metadata)
        )
    except (pa.ArrowException, ValueError, LookupError) as error:
        raise ReportFailed("BadReport", f"{SCORES} cannot be used: {error}") from error
    finally:
        path.unlink()


def _check_rows(table: pa.Table, numbers: ReportNumbers, where: str) -> None:
    """Raise ReportFailed unless every row has scores once: with rows taken out, all digests could be made again."""
    rows = table.group_by(["_index_", "_replication_"]).aggregate([]).num_rows
    if not rows == table.num_rows == numbers.rows.present:
        raise ReportFailed(
            "BadReport",
            f"{where} has the scores of {rows} rows in {table.num_rows} lines; "
            f"{NUMBERS} says that {numbers.rows.present} rows are there",
        )


def _write_kept(table: pa.Table, folder: Path, identity: str) -> Digest:
    name = f"scores/{identity}.parquet"
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path, compression="zstd")
    return Digest(what="Scores kept", path=name, size=path.stat().st_size, sha256=file_sha256(path))


def _compute_digest(what: str, path: str, data: bytes) -> Digest:
    return Digest(what=what, path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def _view_json(pipeline: list[dict[str, object]] | list[Mapping[str, object]]) -> str:
    return orjson.dumps(pipeline, option=orjson.OPT_SORT_KEYS).decode() if pipeline else ""
