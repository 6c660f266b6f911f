"""The orchestrator's claims in SQLite."""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

import orjson

from steelyard.accounts.admissions import Check, decide, list_undecided
from steelyard.accounts.claims import Claim, ForgottenClaim
from steelyard.accounts.database import Superseded
from steelyard.accounts.quota_settings import LONGEST
from steelyard.sqlite import Database

MIGRATION = """
CREATE TABLE claims (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, account TEXT NOT NULL, status TEXT NOT NULL, json BLOB NOT NULL,
    epoch INTEGER NOT NULL, offset INTEGER NOT NULL, created REAL NOT NULL, reason TEXT, message TEXT,
    blocked BLOB NOT NULL, quantities BLOB NOT NULL, admitted REAL, released REAL, terminal REAL
) WITHOUT ROWID;
CREATE INDEX claims_unfinished ON claims (created, id)
    WHERE terminal IS NULL OR (admitted IS NOT NULL AND released IS NULL);
CREATE INDEX claims_held ON claims (admitted) WHERE admitted IS NOT NULL AND released IS NULL;
CREATE INDEX claims_admitted ON claims (admitted) WHERE admitted IS NOT NULL;
CREATE TABLE claim_positions (partition INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, next INTEGER NOT NULL);
CREATE TABLE leaders (epoch INTEGER PRIMARY KEY, owner TEXT NOT NULL, since REAL NOT NULL);
"""
SECOND_MIGRATION = """
CREATE TABLE past_admissions (
    id TEXT NOT NULL, kind TEXT NOT NULL, account TEXT NOT NULL, quantities BLOB NOT NULL, created REAL NOT NULL,
    admitted REAL NOT NULL, released REAL NOT NULL, PRIMARY KEY (admitted, id)
) WITHOUT ROWID;
"""
THIRD_MIGRATION = "CREATE INDEX claims_by_kind ON claims (kind, created);"
_COLUMNS = (
    "id, kind, account, status, json, epoch, offset, created, reason, message, blocked, quantities, admitted, "
    "released, terminal"
)
_Row = tuple[
    str, str, str, str, bytes, int, int, float, str | None, str | None, bytes, bytes, float | None, float | None,
    float | None,
]  # fmt: skip
_UNFINISHED = "terminal IS NULL OR (admitted IS NOT NULL AND released IS NULL)"
_HELD = "admitted IS NOT NULL AND released IS NULL"
_WITHOUT_JSON = _COLUMNS.replace("json", "x''")
"""Columns that the check of an admission reads; an entity's JSON may have 512 KiB."""
_PAST = (
    "id, kind, account, '' status, x'' json, 0 epoch, 0 offset, created, NULL reason, NULL message, "
    "CAST('[]' AS BLOB) blocked, quantities, admitted, released, NULL terminal"
)
"""Columns like `_WITHOUT_JSON`, for an admission that its claim no longer holds."""


class SqliteClaims:
    """The Claims protocol."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def positions(self, epoch: int) -> Mapping[int, int]:
        query = "SELECT partition, next FROM claim_positions WHERE epoch = ?"
        return dict(
            self._database.read_now(lambda connection: connection.execute(query, (epoch,)).fetchall())
        )

    async def apply(
        self,
        changes: Sequence[tuple[str, Claim | ForgottenClaim | None]],
        epoch: int,
        positions: Mapping[int, int],
        leader: int,
    ) -> None:
        def write(connection: sqlite3.Connection) -> None:
            _check_leader(connection, leader)
            for id, claim in changes:
                if isinstance(claim, Claim):
                    _keep(connection, claim)
                else:
                    _remove(connection, id, claim)
            connection.executemany(
                "INSERT OR REPLACE INTO claim_positions VALUES (?, ?, ?)",
                [(partition, epoch, next_) for partition, next_ in positions.items()],
            )

        await self._database.write(write)

    async def get(self, id: str) -> Claim | None:
        return self._database.read_now(lambda connection: _get(connection, id))

    async def list_unfinished(self) -> Sequence[Claim]:
        query = f"SELECT {_COLUMNS} FROM claims WHERE {_UNFINISHED} ORDER BY created, id"
        return await self._database.read(
            lambda connection: [_claim(row) for row in connection.execute(query)]
        )

    async def find_claims(self, ids: Sequence[str]) -> Mapping[str, Claim]:
        return self._database.read_now(lambda connection: _find_claims(connection, ids))

    async def quotas(self) -> Sequence[Claim]:
        query = f"SELECT {_COLUMNS} FROM claims WHERE kind = 'Quota' ORDER BY created, id"
        return await self._database.read(
            lambda connection: [_claim(row) for row in connection.execute(query)]
        )

    async def list_created(self, kinds: Collection[str], since: datetime) -> Sequence[Claim]:
        query = (
            f"SELECT {_WITHOUT_JSON} FROM claims WHERE kind IN (SELECT value FROM json_each(?)) AND created >= ?"
            " ORDER BY created, id"
        )
        values = (orjson.dumps(sorted(kinds)).decode(), since.timestamp())
        return await self._database.read(
            lambda connection: [_claim(row) for row in connection.execute(query, values)]
        )

    async def list_counted(self, since: datetime | None = None) -> Sequence[Claim]:
        return await self._database.read(lambda connection: _list_counted(connection, since))

    async def admit(
        self,
        ids: Sequence[str],
        now: datetime,
        allowed: Check,
        leader: int,
        since: datetime | None = None,
    ) -> Mapping[str, str]:
        def write(connection: sqlite3.Connection) -> dict[str, str]:
            _check_leader(connection, leader)
            claims, refusals = list_undecided(ids, _find_claims(connection, ids, _WITHOUT_JSON))
            if not claims:
                return refusals
            admitted, refused = decide(claims, _list_counted(connection, since), now, allowed)
            if admitted:
                _note_admissions(connection, admitted, now.timestamp())
            return refusals | refused

        return await self._database.write(write)

    async def release(self, id: str, now: datetime, leader: int) -> None:
        query = f"UPDATE claims SET released = ? WHERE id = ? AND {_HELD}"

        def write(connection: sqlite3.Connection) -> None:
            _check_leader(connection, leader)
            connection.execute(query, (now.timestamp(), id))

        await self._database.write(write)

    async def lead(self, owner: str, now: datetime) -> int:
        def begin(connection: sqlite3.Connection) -> int:
            row = (owner, now.timestamp())
            epoch = connection.execute("INSERT INTO leaders (owner, since) VALUES (?, ?)", row).lastrowid
            # AUTOINCREMENT is not needed: the newest row stays, so that epochs only grow.
            connection.execute("DELETE FROM leaders WHERE epoch < ?", (epoch,))
            return int(epoch or 0)

        return await self._database.write(begin)


def _note_admissions(connection: sqlite3.Connection, ids: Sequence[str], now: float) -> None:
    for id in ids:
        _remember(connection, id)
    # No window of a rate reaches back to them.
    before = now - LONGEST.total_seconds()
    connection.execute("DELETE FROM past_admissions WHERE admitted < ?", (before,))
    query = "UPDATE claims SET admitted = ?, released = NULL WHERE id = ?"
    connection.executemany(query, [(now, id) for id in ids])


def _remove(connection: sqlite3.Connection, id: str, forgotten: ForgottenClaim | None) -> None:
    """Remove a claim, unless its entity was created again after the command that forgot it."""
    if forgotten is None:
        _remember(connection, id)
        connection.execute("DELETE FROM claims WHERE id = ?", (id,))
        return
    where, values = "id = ? AND (epoch, offset) <= (?, ?)", (id, *forgotten.position)
    # A command of an earlier position than the claim's is old news: the entity was created again since.
    if connection.execute(f"SELECT 1 FROM claims WHERE {where}", values).fetchone():
        _remember(connection, id)
        connection.execute("DELETE FROM claims WHERE id = ?", (id,))


def _remember(connection: sqlite3.Connection, id: str) -> None:
    """Keep an admission that its claim is about to forget: the windows of rates count it still."""
    connection.execute(
        "INSERT OR IGNORE INTO past_admissions SELECT id, kind, account, quantities, created, admitted,"
        " coalesce(released, admitted) FROM claims WHERE id = ? AND admitted IS NOT NULL",
        (id,),
    )


def _keep(connection: sqlite3.Connection, claim: Claim) -> None:
    """Write an entity's newest state into its claim. The times of its admission and release stay.

    The exception: an entity that is unfinished although its claim was released has been restored. Both times are then
    cleared, so that it is admitted again.
    """
    again = "released IS NOT NULL AND excluded.terminal IS NULL"
    if claim.terminal_at is None:
        query = "SELECT 1 FROM claims WHERE id = ? AND released IS NOT NULL AND (epoch, offset) < (?, ?)"
        if connection.execute(query, (claim.id, *claim.position)).fetchone():
            _remember(connection, claim.id)
    connection.execute(
        f"""INSERT INTO claims ({_COLUMNS}) VALUES ({", ".join("?" * 15)})
            ON CONFLICT (id) DO UPDATE SET
                kind = excluded.kind, account = excluded.account, status = excluded.status, json = excluded.json,
                epoch = excluded.epoch, offset = excluded.offset, created = excluded.created,
                reason = excluded.reason, message = excluded.message, blocked = excluded.blocked,
                quantities = excluded.quantities, terminal = excluded.terminal,
                admitted = iif({again}, excluded.admitted, coalesce(admitted, excluded.admitted)),
                released = iif({again}, excluded.released, coalesce(released, excluded.released))
            WHERE (excluded.epoch, excluded.offset) > (epoch, offset)""",
        (
            claim.id, claim.kind, claim.account, claim.status, claim.json, *claim.position,
            claim.created.timestamp(), claim.reason, claim.message, orjson.dumps(sorted(claim.blocked)),
            orjson.dumps(dict(claim.quantities)), _seconds(claim.admitted_at), _seconds(claim.released_at),
            _seconds(claim.terminal_at),
        ),
    )  # fmt: skip


def _check_leader(connection: sqlite3.Connection, leader: int) -> None:
    newest = connection.execute("SELECT max(epoch) FROM leaders").fetchone()[0]
    # Fencing: a leader that was suspended for longer than its lease must not count back what its successor has done.
    if newest != leader:
        raise Superseded(f"leader {leader} was replaced by leader {newest}")


def _list_counted(connection: sqlite3.Connection, since: datetime | None) -> list[Claim]:
    """Return the claims that are held, and every admission since then."""
    queries, values = [f"SELECT {_WITHOUT_JSON} FROM claims WHERE {_HELD}"], []
    if since is not None:
        queries.append(f"SELECT {_WITHOUT_JSON} FROM claims WHERE admitted IS NOT NULL AND admitted >= ?")
        queries.append(f"SELECT {_PAST} FROM past_admissions WHERE admitted >= ?")
        values = [since.timestamp()] * 2
    return [_claim(row) for row in connection.execute(" UNION ".join(queries), values)]


def _find_claims(
    connection: sqlite3.Connection, ids: Sequence[str], columns: str = _COLUMNS
) -> dict[str, Claim]:
    query = f"SELECT {columns} FROM claims WHERE id IN (SELECT value FROM json_each(?))"
    rows = connection.execute(query, (orjson.dumps(list(ids)).decode(),)).fetchall()
    return {row[0]: _claim(row) for row in rows}


def _get(connection: sqlite3.Connection, id: str) -> Claim | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM claims WHERE id = ?", (id,)).fetchone()
    return _claim(row) if row else None


def _claim(row: _Row) -> Claim:
    id, kind, account, status, json, epoch, offset, created, reason, message, blocked, quantities = row[:12]
    admitted, released, terminal = (
        None if seconds is None else datetime.fromtimestamp(seconds, UTC) for seconds in row[12:]
    )
    return Claim(
        id=id, kind=kind, account=account, status=status, json=json, position=(epoch, offset),
        created=datetime.fromtimestamp(created, UTC), reason=reason, message=message,
        blocked=frozenset(orjson.loads(blocked)), quantities=orjson.loads(quantities), admitted_at=admitted,
        released_at=released, terminal_at=terminal,
    )  # fmt: skip


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()
