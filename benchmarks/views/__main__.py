"""Measures gets, queries and the filling of the SQLite view: `python -m benchmarks.views [--million]`.

Beside a get, in the same run, stands a bare `sqlite3` lookup of a row of the same size by an indexed text. Without
`--million` there are 10,000 evaluations; with it a second view has 1,000,000 (about 4 GB on disk).
"""

import asyncio
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path

from steelyard.views.fields import cursor
from steelyard.views.sqlite.view import SqliteView
from steelyard.views.view import Change, Position, Query
from steelyard_schema.account import Scope

BATCH = 2000
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
STATUSES = ["Complete"] * 90 + ["Failed"] * 8 + ["Admitted", "Created"]


def hexadecimal(*parts: object) -> str:
    return sha256("/".join(map(str, parts)).encode()).hexdigest()[:32]


def evaluation(number: int) -> dict[str, object]:
    """Make about 2 KB of JSON, as a real entity has: 100 accounts, 50 data sets, 256 services of 20 models,
    independently.
    """
    account, dataset, service, status = sha256(str(number).encode()).digest()[:4]
    model = service % 20
    created = BEGAN + timedelta(seconds=number, microseconds=number % 1000)
    foreign_model = {
        "id": hexadecimal("m", model),
        "name": f"model-{model}",
        "account": "a",
        "artifact": {"kind": "Mock"},
    }
    interface = {"endpoint": "generate", "outputSchema": {"arrowSchema": "A" * 700}}
    return {
        "id": hexadecimal("e", number), "kind": "Evaluation", "account": hexadecimal("a", account % 100),
        "schemaVersion": "0.1", "labels": {"tier": f"t{number % 10}", "run": f"r{number // 100}"},
        "creationTime": created.isoformat().replace("+00:00", "Z"),
        "lastTransitionTime": (created + timedelta(minutes=3)).isoformat().replace("+00:00", "Z"),
        "status": STATUSES[status % 100], "dataset": hexadecimal("d", dataset % 50), "replications": 1,
        "client": {"batchSize": 1000, "extraOptions": {}, "note": "x" * 300}, "annotations": [],
        "inferenceSession": {"replicas": 1, "useSpotPods": True, "inferenceService": {
            "id": hexadecimal("s", service), "name": f"service-{service}", "account": "a", "interface": interface,
            "model": foreign_model}},
        "metadata": {"documentation": {"title": "t" * 60, "summary": "s" * 200}, "preconditions": []},
    }  # fmt: skip


def changes(count: int, status: str | None = None) -> Iterator[list[Change]]:
    for first in range(0, count, BATCH):
        batch = []
        for number in range(first, min(count, first + BATCH)):
            entity = evaluation(number) | ({"status": status} if status else {})
            position = Position(1, number + (count if status else 0))
            batch.append(
                Change(str(entity["id"]), json.dumps(entity, separators=(",", ":")).encode(), position)
            )
        yield batch


async def fill(view: SqliteView, count: int, status: str | None = None) -> float:
    """Rows a second; making the JSON is not counted."""
    busy = 0.0
    for batch in changes(count, status):
        began = time.perf_counter()
        await view.apply(batch, 1, {0: batch[-1].position.offset + 1})
        busy += time.perf_counter() - began
    return count / busy


async def timed(call: Callable[[int], Awaitable[object]], times: int) -> tuple[float, float]:
    """Median and 99th percentile, in microseconds."""
    took = []
    for number in range(times):
        began = time.perf_counter()
        await call(number)
        took.append((time.perf_counter() - began) * 1e6)
    took.sort()
    return statistics.median(took), took[int(len(took) * 0.99)]


async def ask(view: SqliteView, query: Query, _: int) -> object:
    return await view.query(query)


NEWEST = {"order_by": "creationTime", "order": "descending", "limit": 100}


def queries(count: int) -> dict[str, Query]:
    def evaluations(**fields: object) -> Query:
        return Query("Evaluation", **{**NEWEST, **fields})  # type: ignore[arg-type]

    some = tuple(hexadecimal("e", number) for number in range(0, count, count // 100))
    account, dataset = hexadecimal("a", 7), hexadecimal("d", 3)
    middle = cursor(evaluation(count // 2), "Evaluation", "creationTime")
    own = Scope(frozenset({account}), frozenset(some[:3]))
    return {
        "all, newest first": evaluations(),
        "a page in the middle": evaluations(after=middle),
        "an account's, newest first": evaluations(filters={"account": (account,)}),
        "what somebody may see, newest first": evaluations(scope=own),
        "an account's failed ones": evaluations(filters={"account": (account,), "status": ("Failed",)}),
        "two statuses": evaluations(any_of=({"status": ("Created", "Admitted")},)),
        "of a data set": evaluations(filters={"dataset": (dataset,)}),
        "of a data set and an account": evaluations(filters={"dataset": (dataset,), "account": (account,)}),
        "of a model's name, failed": evaluations(filters={"modelName": ("model-3",), "status": ("Failed",)}),
        "of a common label": evaluations(labels={"tier": "t3"}),
        "of a rare label": evaluations(labels={"run": "r3"}),
        "100 ids": evaluations(filters={"id": some}),
        "changed last": evaluations(order_by="lastTransitionTime"),
        "that nothing meets": evaluations(filters={"dataset": (dataset,), "status": ("Deleted",)}),
    }


def open_bare(folder: Path, count: int) -> Callable[[str], object]:
    """Return a lookup by `sqlite3` alone of one of so many rows of 2 KB, by an indexed text."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.executescript(
        "PRAGMA journal_mode=WAL; CREATE TABLE t (id TEXT PRIMARY KEY, json BLOB); BEGIN"
    )
    rows = ((change.id, change.json) for batch in changes(count) for change in batch)
    connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    connection.execute("COMMIT")
    return lambda id: connection.execute("SELECT json FROM t WHERE id = ?", (id,)).fetchone()


def bare_lookup(folder: Path, count: int) -> float:
    """Return the median of a bare lookup, in microseconds."""
    look_up, took = open_bare(folder, count), []
    for number in range(20_000):
        id = hexadecimal("e", number * 7907 % count)
        began = time.perf_counter()
        look_up(id)
        took.append((time.perf_counter() - began) * 1e6)
    return statistics.median(took)


async def measure(folder: Path, count: int) -> dict[str, float]:
    path = folder / f"view-{count}.db"
    view = await SqliteView.open(path)
    try:
        figures = {"filled, rows/s": await fill(view, count)}
        figures["a status changed, rows/s"] = await fill(view, min(count, 10_000), "Terminated")
        figures["file, bytes per entity"] = path.stat().st_size / count
        ids = [hexadecimal("e", number * 7907 % count) for number in range(20_000)]
        median, worst = await timed(lambda number: view.get("Evaluation", ids[number]), len(ids))
        figures["get, µs"], figures["get, 99 %, µs"] = median, worst
        for name, query in queries(count).items():
            figures[f"{name}, µs"], _ = await timed(partial(ask, view, query), 50)
    finally:
        await view.close()
    return figures


def main() -> None:
    counts = [10_000, 1_000_000] if "--million" in sys.argv[1:] else [10_000]
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as folder:
        bare = bare_lookup(Path(folder), 10_000)
        results = {count: asyncio.run(measure(Path(folder), count)) for count in counts}
    print(f"| what | {' | '.join(f'{count:,} entities' for count in counts)} |")
    print("|---|" + "---|" * len(counts))
    for name in results[counts[0]]:
        print(f"| {name} | {' | '.join(f'{results[count][name]:,.0f}' for count in counts)} |")
    print(f"\nbare sqlite3 lookup, µs: {bare:.1f}")
    rounded = {count: {name: round(value, 1) for name, value in results[count].items()} for count in counts}
    print(json.dumps({"bare lookup, µs": round(bare, 1), **rounded}))


if __name__ == "__main__":
    main()
