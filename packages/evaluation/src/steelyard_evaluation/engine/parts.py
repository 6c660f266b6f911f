"""The bytes of parts: finished rows as Parquet, row errors as Parquet, row sets as JSON. Pure; runs in threads."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard_common.types import JsonValue
from steelyard_evaluation.engine.backlog import Try
from steelyard_evaluation.engine.caps import Usage
from steelyard_evaluation.engine.rowset import Ranges, make_ranges
from steelyard_evaluation.engine.shape import INDEX, REPLICATION, RESPONSES
from steelyard_evaluation.storage.checked import add_digest, check_record

RETRIED = "Retried"
"""The reason of a row that has its answer, though not from the first try. Every other reason is a row's without one."""

CALLS_METADATA = b"steelyard.calls"
"""The key of a part's Parquet metadata that holds its `Calls`: whole or not there, as the part is."""

_TRY_FIELDS: dict[str, pa.DataType] = {
    "time": pa.string(),
    "replica": pa.string(),
    "status": pa.int32(),
    "message": pa.string(),
}
_ERROR_COLUMNS: dict[str, pa.DataType] = {
    INDEX: pa.int64(),
    REPLICATION: pa.string(),
    "reason": pa.string(),
    "message": pa.string(),
    "status": pa.int32(),
    "body": pa.string(),
    "attempts": pa.int32(),
    "replica": pa.string(),
    "tries": pa.list_(pa.struct(list(pa.schema(_TRY_FIELDS)))),
}
ERROR_SCHEMA = pa.schema(_ERROR_COLUMNS)


@dataclass(frozen=True, slots=True)
class RowError:
    """The reason why a row has no responses, or what it took to get them."""

    reason: str
    message: str
    status: int | None
    body: str | None
    attempts: int
    replica: str | None
    tries: Sequence[Try] = ()
    """The calls that failed, in order."""


@dataclass(frozen=True, slots=True)
class FinishedRow:
    """One row of the output: its responses, or the error that it was skipped for; both when it was tried again."""

    position: int
    index: int
    replication: str
    responses: list[dict[str, JsonValue]] | None
    error: RowError | None = None
    tokens: Usage | None = None
    """Tokens of the row's call, where the endpoint reports them."""
    replica: str | None = None
    """The base URL of the replica that answered, or refused, it; None where no replica was asked."""
    endings: Sequence[str] = ()
    """Reasons of ending in its answer that are not known."""


@dataclass(frozen=True)
class Calls:
    """Counts of the rows of a part by who answered them, and of answers by an unknown reason of ending."""

    replicas: Mapping[str, int] = field(default_factory=Counter)
    """Rows by the base URL of their replica."""
    endings: Mapping[str, int] = field(default_factory=Counter)
    """Number of answers by their reason of ending, where it is not known."""

    def __add__(self, other: "Calls") -> "Calls":
        return Calls(
            Counter(self.replicas) + Counter(other.replicas), Counter(self.endings) + Counter(other.endings)
        )


@dataclass(frozen=True)
class Digests:
    """SHA-256 of a part, and of the row errors that belong to it, if any."""

    part: str
    errors: str | None

    @classmethod
    def compute(cls, part: bytes, errors: bytes | None) -> "Digests":
        return cls(
            hashlib.sha256(part).hexdigest(), None if errors is None else hashlib.sha256(errors).hexdigest()
        )


@dataclass(frozen=True)
class StoredRows:
    """A row set: the rows of a part, the tokens of its calls and its digests, where these are written down."""

    ranges: Ranges
    tokens: Usage | None
    digests: Digests | None


@dataclass(frozen=True)
class EncodedPart:
    """A part and the files that belong to it."""

    part: bytes
    errors: bytes | None
    rows: bytes
    tokens: Usage | None


def encode(finished: Sequence[FinishedRow], schema: pa.Schema) -> EncodedPart:
    """The files of one part, its rows in the order of the dataset."""
    # Answers come in any order; sorted, the ranges of the row set are few and the file compresses well.
    rows = sorted(finished, key=lambda row: row.position)
    columns: list[pa.Array[JsonValue]] = [
        pa.array([row.index for row in rows], pa.int64()),
        pa.array([row.replication for row in rows], pa.string()),
        pa.array([row.responses for row in rows], schema.field(RESPONSES).type),
    ]
    replicas = Counter(row.replica for row in rows if row.replica is not None)
    endings = Counter(reason for row in rows for reason in row.endings)
    # Sorted by name: the same rows give the same bytes, whatever the order of their answers.
    calls = {"replicas": dict(sorted(replicas.items())), "endings": dict(sorted(endings.items()))}
    metadata = {**(schema.metadata or {}), CALLS_METADATA: orjson.dumps(calls)}
    part = parquet(pa.Table.from_arrays(columns, schema=schema.with_metadata(metadata)))
    failed = [row for row in rows if row.error is not None]
    errors = _errors(failed) if failed else None
    used = [row.tokens for row in rows if row.tokens is not None]
    tokens = sum(used, Usage()) if used else None
    digests = Digests.compute(part, errors)
    return EncodedPart(part, errors, row_set([row.position for row in rows], digests, tokens), tokens)


def read_calls(schema: pa.Schema) -> Calls:
    """Reads the calls of a part from its schema; empty where an older version wrote the part."""
    stored = orjson.loads((schema.metadata or {}).get(CALLS_METADATA, b"{}"))
    return Calls(Counter(stored.get("replicas", {})), Counter(stored.get("endings", {})))


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def row_set(positions: Sequence[int], digests: Digests, tokens: Usage | None = None) -> bytes:
    """Return the content of a part's row set; with the tokens of its calls, where they are reported."""
    ranges = make_ranges(positions)
    content: dict[str, JsonValue] = {
        "rows": sum(b - a for a, b in ranges),
        "ranges": ranges,
        "digests": asdict(digests),
    }
    if tokens is not None:
        content["tokens"] = [tokens.prompt, tokens.completion]
    return orjson.dumps(add_digest(content))


def read_row_set(data: bytes, store: str, key: str) -> StoredRows:
    """Return what a row set says. Raises DigestMismatch where it was changed."""
    content = check_record(data, store, key)
    tokens, digests = content.get("tokens"), content.get("digests")
    return StoredRows(
        content["ranges"],
        None if tokens is None else Usage(*tokens),
        None if digests is None else Digests(**digests),
    )


def _errors(failed: Sequence[FinishedRow]) -> bytes:
    records = [
        {
            INDEX: row.index,
            REPLICATION: row.replication,
            "reason": row.error.reason,
            "message": row.error.message,
            "status": row.error.status,
            "body": row.error.body,
            "attempts": row.error.attempts,
            "replica": row.error.replica,
            "tries": [asdict(attempt) for attempt in row.error.tries],
        }
        for row in failed
        if row.error is not None
    ]
    return parquet(pa.Table.from_pylist(records, schema=ERROR_SCHEMA))
