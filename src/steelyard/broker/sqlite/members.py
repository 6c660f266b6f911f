"""The members of a consumer group in SQLite: who lives, and who holds which partition. `log.py` calls this.

A member is known by its process, so that who was killed is succeeded at once, and by a lease, for who has stalled.
Times are of the machine's monotonic clock, which all processes share: a clock that is set does not end a lease.
"""

import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.broker.log import Batch, Fenced
from steelyard.broker.sharing import share
from steelyard.engines.processes import may_live

LEASE_SECONDS = 30.0
RENEW_SECONDS = LEASE_SECONDS / 3


@dataclass(frozen=True)
class Member:
    """One inbox."""

    name: str
    group: str
    topic: str
    process: str

    @property
    def place(self) -> tuple[str, str]:
        return self.group, self.topic


@dataclass(frozen=True)
class HeldPartitions:
    """Partitions that a member holds, and the next offset of each. Another generation means that they must be read
    again."""

    generation: int
    positions: Mapping[int, int]


def renew(connection: sqlite3.Connection, member: Member, partitions: int) -> HeldPartitions:
    """Say that we live, give back partitions that are another's due, and take those that are ours and free."""
    now = time.monotonic()
    changed = _live(connection, member, now) + _bury(connection, member, now)
    query = "SELECT member FROM members WHERE member_group = ? AND topic = ?"
    living = [name for (name,) in connection.execute(query, member.place).fetchall()]
    due = share(living, partitions)
    holders = dict(_holders(connection, member))
    for partition, owner in due.items():
        holder = holders.get(partition)
        if owner == member.name != holder and holder not in living:
            changed += _take(connection, member, partition)
        elif owner != member.name and holder == member.name:
            changed += connection.execute(
                "DELETE FROM holdings WHERE member_group = ? AND topic = ? AND partition = ?",
                (*member.place, partition),
            ).rowcount
    if changed:
        connection.execute(
            """INSERT INTO groups VALUES (?, ?, 1)
               ON CONFLICT (member_group, topic) DO UPDATE SET generation = generation + 1""",
            member.place,
        )
    return HeldPartitions(generation(connection, member), _positions(connection, member))


def generation(connection: sqlite3.Connection, member: Member) -> int:
    """Changes whenever members or their partitions do."""
    row = connection.execute(
        "SELECT generation FROM groups WHERE member_group = ? AND topic = ?", member.place
    ).fetchone()
    return int(row[0]) if row else 0


def leave(connection: sqlite3.Connection, member: Member) -> None:
    for table in ("members", "holdings"):
        connection.execute(
            f"DELETE FROM {table} WHERE member_group = ? AND topic = ? AND member = ?",
            (*member.place, member.name),
        )
    connection.execute(
        "UPDATE groups SET generation = generation + 1 WHERE member_group = ? AND topic = ?", member.place
    )


def move(connection: sqlite3.Connection, member: Member, batch: Batch) -> None:
    """The batch's partitions go on after it, if they are this member's and stand where the batch began."""
    if batch.starts.keys() != batch.positions.keys():
        raise Fenced(f"{member.topic}: a batch of group {member.group} has positions without starts")
    held = _positions(connection, member)
    for partition, start in batch.starts.items():
        # Both are checked in the transaction that writes the outputs. A process that was stopped and goes on an hour
        # later still believes that it holds the partition; here it finds out, before anything is written.
        if held.get(partition) != start:
            raise Fenced(
                f"{member.topic}: partition {partition} of group {member.group} went to another member"
            )
    connection.executemany(
        "UPDATE positions SET next = ? WHERE member_group = ? AND topic = ? AND partition = ?",
        [(next_, *member.place, partition) for partition, next_ in batch.positions.items()],
    )


def _live(connection: sqlite3.Connection, member: Member, now: float) -> int:
    """1 when the member is new."""
    # A member that others took for dead is entered again, with nothing in its hands: what it held is another's.
    renewed = connection.execute(
        "UPDATE members SET renewed = ? WHERE member_group = ? AND topic = ? AND member = ?",
        (now, *member.place, member.name),
    ).rowcount
    if not renewed:
        row = (*member.place, member.name, member.process, now)
        connection.execute("INSERT INTO members VALUES (?, ?, ?, ?, ?)", row)
    return 1 - renewed


def _bury(connection: sqlite3.Connection, member: Member, now: float) -> int:
    """Members that are dead or have stalled lose what they hold."""
    rows = connection.execute(
        "SELECT member, process, renewed FROM members WHERE member_group = ? AND topic = ?", member.place
    ).fetchall()
    dead = [
        name
        for name, process, renewed in rows
        if name != member.name and not (0 <= now - renewed <= LEASE_SECONDS and may_live(process))
    ]
    for table in ("members", "holdings"):
        connection.executemany(
            f"DELETE FROM {table} WHERE member_group = ? AND topic = ? AND member = ?",
            [(*member.place, name) for name in dead],
        )
    return len(dead)


def _take(connection: sqlite3.Connection, member: Member, partition: int) -> int:
    # A position that is there stays: the partition goes on where the last member committed, at offset 0 only for the
    # first.
    row = (*member.place, partition)
    connection.execute("INSERT OR REPLACE INTO holdings VALUES (?, ?, ?, ?)", (*row, member.name))
    connection.execute("INSERT OR IGNORE INTO positions VALUES (?, ?, ?, 0)", row)
    return 1


def _holders(connection: sqlite3.Connection, member: Member) -> list[tuple[int, str]]:
    query = "SELECT partition, member FROM holdings WHERE member_group = ? AND topic = ?"
    return connection.execute(query, member.place).fetchall()


def _positions(connection: sqlite3.Connection, member: Member) -> dict[int, int]:
    """Return the positions of the partitions that the member holds."""
    return dict(
        connection.execute(
            """SELECT partition, next FROM holdings JOIN positions USING (member_group, topic, partition)
               WHERE member_group = ? AND topic = ? AND member = ? ORDER BY partition""",
            (*member.place, member.name),
        ).fetchall()
    )
