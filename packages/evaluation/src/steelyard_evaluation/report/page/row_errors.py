"""Rows without an answer: what the evaluation wrote down about each, with the status and the body of the service.

They are stored next to the verified files, one file per part; parts that came too late do not count.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO

import pyarrow as pa

from steelyard_common.bounded_parquet import read_table
from steelyard_common.types import JsonValue
from steelyard_evaluation.engine import layout
from steelyard_evaluation.engine.manifest import FileEntry, read_manifest
from steelyard_evaluation.report.page.rows import cut
from steelyard_evaluation.report.wording import count
from steelyard_evaluation.storage.checked import check_digest
from steelyard_evaluation.storage.store import Store

Key = tuple[int, str]
MOST_SHOWN = 24
MOST_BODY = 1_500
UNTOLD = "without a record"
RETRIED = "Retried"
"""The reason of a row that was answered after further tries."""


@dataclass(frozen=True)
class Records:
    """Records of the error files by `_index_` and `_replication_`, and the files by their digests.

    A row may stand there that was answered in the end: it was asked again.
    """

    rows: Mapping[Key, Mapping[str, JsonValue]]
    files: tuple[FileEntry, ...] = ()

    def missing_indexes(self) -> list[int]:
        """The `_index_` of rows that were given up, in order."""
        return sorted({index for (index, _), row in self.rows.items() if row.get("reason") != RETRIED})


@dataclass(frozen=True)
class RowError:
    """One row without an answer, as the page shows it."""

    index: int
    replication: int
    reason: str
    message: str
    status: int | None
    body: str
    attempts: int | None
    texts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class RowErrors:
    """Rows without an answer: their number, the reasons, and the first of them."""

    total: int
    sentence: str
    kinds: tuple[tuple[str, int], ...] = ()
    shown: tuple[RowError, ...] = ()
    again: int = 0
    """Rows that were asked again before they were answered."""

    def numbers(self) -> dict[str, JsonValue]:
        return {
            "total": self.total,
            "askedAgain": self.again,
            "kinds": [{"what": what, "rows": rows} for what, rows in self.kinds],
            "shown": [
                {
                    "index": error.index,
                    "replication": error.replication,
                    "reason": error.reason,
                    "message": error.message,
                    "status": error.status,
                    "body": error.body,
                    "attempts": error.attempts,
                }
                for error in self.shown
            ],
        }


async def read_records(store: Store) -> Records:
    """The records of the parts that the verified files were made from. Raises DigestMismatch for a changed one."""
    manifest = await read_manifest(store)
    known = {entry.path: entry.sha256 for entry in manifest.records}
    counted = {part.removeprefix(layout.PARTS).rpartition("/")[2] for part in manifest.parts}
    rows: dict[Key, Mapping[str, JsonValue]] = {}
    files = []
    async for info in store.list(layout.ERRORS):
        name = info.key.removeprefix(layout.ERRORS)
        # Manifests that list no parts are those of a run's judged output, whose errors are the run's own.
        if counted and "part" + name.removeprefix("errors") not in counted:
            continue
        data = await store.get(info.key)
        digest = hashlib.sha256(data).hexdigest()
        check_digest(store, info.key, digest, known.get(info.key))
        table = read_table(BytesIO(data))
        files.append(FileEntry(path=info.key, size=len(data), sha256=digest, rows=table.num_rows))
        rows |= {(row["_index_"], row["_replication_"]): row for row in table.to_pylist()}
    return Records(rows, tuple(files))


def row_errors(
    failed: pa.Table,
    records: Records,
    numbers: Mapping[str, int],
    texts: Mapping[int, Sequence[tuple[str, str]]],
) -> RowErrors:
    """`failed` are `_index_` and `_replication_` of the rows without an answer, in the order of the output.

    `numbers` numbers the replications, `texts` are the questions of the rows that are shown.
    """
    keys = row_keys(failed)
    without = set(keys)
    kinds = Counter(_kind(records.rows.get(key)) for key in keys)
    shown = tuple(
        _make_row_error(key, records.rows.get(key, {}), numbers, texts) for key in keys_shown(keys, records)
    )
    again = sum(key not in without for key in records.rows)
    return RowErrors(len(keys), _sentence(len(keys)), tuple(kinds.most_common()), shown, again)


def row_keys(failed: pa.Table) -> list[Key]:
    return [(row["_index_"], row["_replication_"]) for row in failed.to_pylist()]


def keys_shown(keys: Sequence[Key], records: Records) -> list[Key]:
    """The first of each kind, then the second of each: a rare error is not hidden behind a frequent one."""
    seen: Counter[str] = Counter()
    ranked = []
    for number, key in enumerate(keys):
        kind = _kind(records.rows.get(key))
        ranked.append((seen[kind], number, key))
        seen[kind] += 1
    return [key for _, _, key in sorted(ranked)[:MOST_SHOWN]]


def _kind(record: Mapping[str, JsonValue] | None) -> str:
    if record is None:
        return UNTOLD
    status = record.get("status")
    return f"{record['reason']}, status {status}" if status is not None else str(record["reason"])


def _make_row_error(
    key: Key,
    record: Mapping[str, JsonValue],
    numbers: Mapping[str, int],
    texts: Mapping[int, Sequence[tuple[str, str]]],
) -> RowError:
    index, replication = key
    return RowError(
        index=index,
        replication=numbers.get(replication, 0),
        reason=record.get("reason") or UNTOLD,
        message=cut(record.get("message"), MOST_BODY) or "",
        status=record.get("status"),
        body=cut(record.get("body"), MOST_BODY) or "",
        attempts=record.get("attempts"),
        texts=tuple(texts.get(index, ())),
    )


def _sentence(total: int) -> str:
    if not total:
        return "Every row has an answer."
    rows = "1 row has" if total == 1 else f"{count(total)} rows have"
    return f"{rows} no answer." + (
        f" {MOST_SHOWN} are shown, every kind among them first." if total > MOST_SHOWN else ""
    )
