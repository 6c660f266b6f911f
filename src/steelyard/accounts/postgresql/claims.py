"""The orchestrator's claims in PostgreSQL.

Every write locks the leader's row first: claims are written by one leader at a time, one transaction after the other,
and by none that was replaced.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from steelyard.accounts.admissions import Check, decide, list_undecided
from steelyard.accounts.claims import Claim, ForgottenClaim
from steelyard.accounts.database import Superseded
from steelyard.accounts.postgresql.database import PostgresDatabase
from steelyard.accounts.quota_settings import LONGEST

_COLUMNS = (
    "id, kind, account, status, json, epoch, position, created, reason, message, blocked, quantities, admitted, "
    "released, terminal"
)
_UNFINISHED = "terminal IS NULL OR (admitted IS NOT NULL AND released IS NULL)"
_HELD = "admitted IS NOT NULL AND released IS NULL"
_WITHOUT_JSON = _COLUMNS.replace("json", "''::bytea AS json")
"""Columns that the check of an admission reads; an entity's JSON may have 512 KiB."""
_PAST = (
    "id, kind, account, '' AS status, ''::bytea AS json, 0 AS epoch, 0 AS position, created, NULL::bytea AS reason,"
    " NULL::bytea AS message, '[]'::bytea AS blocked, quantities, admitted, released, NULL::timestamptz AS terminal"
)
"""Columns like `_WITHOUT_JSON`, for an admission that its claim no longer holds."""
_AGAIN = "claims.released IS NOT NULL AND excluded.terminal IS NULL"
"""Condition of a claim that was released and is unfinished again: its entity was restored, and is admitted again."""
_KEEP = text(
    f"""INSERT INTO claims ({_COLUMNS}) VALUES ({", ".join(f":{name}" for name in _COLUMNS.split(", "))})
        ON CONFLICT (id) DO UPDATE SET
            kind = excluded.kind, account = excluded.account, status = excluded.status, json = excluded.json,
            epoch = excluded.epoch, position = excluded.position, created = excluded.created,
            reason = excluded.reason, message = excluded.message, blocked = excluded.blocked,
            quantities = excluded.quantities, terminal = excluded.terminal,
            admitted = CASE WHEN {_AGAIN} THEN excluded.admitted ELSE coalesce(claims.admitted, excluded.admitted) END,
            released = CASE WHEN {_AGAIN} THEN excluded.released ELSE coalesce(claims.released, excluded.released) END
        WHERE (excluded.epoch, excluded.position) > (claims.epoch, claims.position)"""
)
_REMEMBER = (
    "INSERT INTO past_admissions SELECT id, kind, account, quantities, created, admitted,"
    " coalesce(released, admitted) FROM claims WHERE admitted IS NOT NULL"
)
"""Keep an admission that its claim is about to forget: the windows of rates count it still."""
_ONCE = " ON CONFLICT DO NOTHING"


class PostgresClaims:
    """The Claims protocol."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def positions(self, epoch: int) -> Mapping[int, int]:
        async def read(connection: AsyncConnection) -> dict[int, int]:
            query = text("SELECT partition, next FROM claim_positions WHERE epoch = :epoch")
            return dict([tuple(row) for row in await connection.execute(query, {"epoch": epoch})])

        return await self._database.read(read)

    async def apply(
        self,
        changes: Sequence[tuple[str, Claim | ForgottenClaim | None]],
        epoch: int,
        positions: Mapping[int, int],
        leader: int,
    ) -> None:
        async def write(connection: AsyncConnection) -> None:
            await _check_leader(connection, leader)
            for id, claim in changes:
                if isinstance(claim, Claim):
                    await _keep(connection, claim)
                else:
                    await _remove(connection, id, claim)
            rows = [
                {"partition": partition, "epoch": epoch, "next": next_}
                for partition, next_ in positions.items()
            ]
            query = (
                "INSERT INTO claim_positions VALUES (:partition, :epoch, :next)"
                " ON CONFLICT (partition) DO UPDATE SET epoch = excluded.epoch, next = excluded.next"
            )
            if rows:
                await connection.execute(text(query), rows)

        await self._database.write(write)

    async def get(self, id: str) -> Claim | None:
        return (await self.find_claims([id])).get(id)

    async def list_unfinished(self) -> Sequence[Claim]:
        return await self._select(f"WHERE {_UNFINISHED} ORDER BY created, id", {})

    async def find_claims(self, ids: Sequence[str]) -> Mapping[str, Claim]:
        return await self._database.read(lambda connection: _find_claims(connection, ids))

    async def quotas(self) -> Sequence[Claim]:
        return await self._select("WHERE kind = 'Quota' ORDER BY created, id", {})

    async def list_created(self, kinds: Collection[str], since: datetime) -> Sequence[Claim]:
        condition = "WHERE kind = ANY(:kinds) AND created >= :since ORDER BY created, id"
        return await self._select(condition, {"kinds": sorted(kinds), "since": since}, _WITHOUT_JSON)

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
        async def write(connection: AsyncConnection) -> dict[str, str]:
            await _check_leader(connection, leader)
            claims, refusals = list_undecided(ids, await _find_claims(connection, ids, _WITHOUT_JSON))
            if not claims:
                return refusals
            admitted, refused = decide(claims, await _list_counted(connection, since), now, allowed)
            if admitted:
                await _note_admissions(connection, admitted, now)
            return refusals | refused

        return await self._database.write(write)

    async def release(self, id: str, now: datetime, leader: int) -> None:
        query = text(f"UPDATE claims SET released = :now WHERE id = :id AND {_HELD}")

        async def write(connection: AsyncConnection) -> None:
            await _check_leader(connection, leader)
            await connection.execute(query, {"now": now, "id": id})

        await self._database.write(write)

    async def lead(self, owner: str, now: datetime) -> int:
        query = text(
            "INSERT INTO leader VALUES (1, 1, :owner, :since) ON CONFLICT (only_row) DO UPDATE"
            " SET epoch = leader.epoch + 1, owner = excluded.owner, since = excluded.since RETURNING epoch"
        )

        async def begin(connection: AsyncConnection) -> int:
            return int((await connection.execute(query, {"owner": owner, "since": now})).scalar_one())

        return await self._database.write(begin)

    async def _select(self, rest: str, values: Mapping[str, object], columns: str = _COLUMNS) -> list[Claim]:
        query = text(f"SELECT {columns} FROM claims {rest}")

        async def read(connection: AsyncConnection) -> list[Claim]:
            return [_claim(row) for row in await connection.execute(query, dict(values))]

        return await self._database.read(read)


async def _note_admissions(connection: AsyncConnection, ids: Sequence[str], now: datetime) -> None:
    await connection.execute(text(f"{_REMEMBER} AND id = ANY(:ids){_ONCE}"), {"ids": ids})
    # No window of a rate reaches back to them.
    query = text("DELETE FROM past_admissions WHERE admitted < :before")
    await connection.execute(query, {"before": now - LONGEST})
    query = text("UPDATE claims SET admitted = :now, released = NULL WHERE id = ANY(:ids)")
    await connection.execute(query, {"now": now, "ids": ids})


async def _remove(connection: AsyncConnection, id: str, forgotten: ForgottenClaim | None) -> None:
    """Remove a claim, unless its entity was created again after the command that forgot it."""
    values: dict[str, object] = {"id": id}
    older = ""
    if forgotten is not None:
        # A command of an earlier position than the claim's is old news: the entity was created again since.
        older = " AND (epoch, position) <= (:epoch, :position)"
        values |= {"epoch": forgotten.position[0], "position": forgotten.position[1]}
    await connection.execute(text(f"{_REMEMBER} AND id = :id{older}{_ONCE}"), values)
    await connection.execute(text(f"DELETE FROM claims WHERE id = :id{older}"), values)


async def _keep(connection: AsyncConnection, claim: Claim) -> None:
    """Write an entity's newest state into its claim. The times of its admission and release stay.

    The exception: an entity that is unfinished although its claim was released has been restored. Both times are then
    cleared, so that it is admitted again.
    """
    epoch, position = claim.position
    if claim.terminal_at is None:
        newer = " AND released IS NOT NULL AND (epoch, position) < (:epoch, :position)"
        values = {"id": claim.id, "epoch": epoch, "position": position}
        await connection.execute(text(f"{_REMEMBER} AND id = :id{newer}{_ONCE}"), values)
    await connection.execute(
        _KEEP,
        {
            "id": claim.id, "kind": claim.kind, "account": claim.account, "status": claim.status,
            "json": claim.json, "epoch": epoch, "position": position, "created": claim.created,
            "reason": _encode(claim.reason), "message": _encode(claim.message),
            "blocked": orjson.dumps(sorted(claim.blocked)), "quantities": orjson.dumps(dict(claim.quantities)),
            "admitted": claim.admitted_at, "released": claim.released_at, "terminal": claim.terminal_at,
        },
    )  # fmt: skip


async def _check_leader(connection: AsyncConnection, leader: int) -> None:
    newest = (await connection.execute(text("SELECT epoch FROM leader FOR UPDATE"))).scalar_one_or_none()
    # Fencing: a leader that was suspended for longer than its lease must not count back what its successor has done.
    if newest != leader:
        raise Superseded(f"leader {leader} was replaced by leader {newest}")


async def _list_counted(connection: AsyncConnection, since: datetime | None) -> list[Claim]:
    """Return the claims that are held, and every admission since then."""
    queries = [f"SELECT {_WITHOUT_JSON} FROM claims WHERE {_HELD}"]
    values: dict[str, object] = {}
    if since is not None:
        queries.append(
            f"SELECT {_WITHOUT_JSON} FROM claims WHERE admitted IS NOT NULL AND admitted >= :since"
        )
        queries.append(f"SELECT {_PAST} FROM past_admissions WHERE admitted >= :since")
        values = {"since": since}
    return [_claim(row) for row in await connection.execute(text(" UNION ".join(queries)), values)]


async def _find_claims(
    connection: AsyncConnection, ids: Sequence[str], columns: str = _COLUMNS
) -> dict[str, Claim]:
    # No text of PostgreSQL has a NUL, and the driver refuses to ask for one.
    wanted = [id for id in ids if "\0" not in id]
    query = text(f"SELECT {columns} FROM claims WHERE id = ANY(:ids)")
    claims = [_claim(row) for row in await connection.execute(query, {"ids": wanted})]
    return {claim.id: claim for claim in claims}


def _claim(row: Row[Any]) -> Claim:
    return Claim(
        id=row.id, kind=row.kind, account=row.account, status=row.status, json=bytes(row.json),
        position=(row.epoch, row.position), created=row.created.astimezone(UTC), reason=_decode(row.reason),
        message=_decode(row.message), blocked=frozenset(orjson.loads(row.blocked)),
        quantities=orjson.loads(row.quantities), admitted_at=_utc(row.admitted), released_at=_utc(row.released),
        terminal_at=_utc(row.terminal),
    )  # fmt: skip


def _encode(message: str | None) -> bytes | None:
    return None if message is None else message.encode()


def _decode(message: bytes | None) -> str | None:
    return None if message is None else bytes(message).decode()


def _utc(time: datetime | None) -> datetime | None:
    return None if time is None else time.astimezone(UTC)
