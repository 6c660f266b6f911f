"""Random histories of operations, for two engines that must answer alike.

An operation is a name and its arguments. `store_outcomes` and `accounts_outcomes` perform a history and return what
each operation answered; an error counts as the answer, by its type.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from steelyard.accounts.claims import Claims, ForgottenClaim
from steelyard.accounts.database import Accounts, CreationRequest
from steelyard.accounts.outbox import Outbox, OutboxRow
from steelyard.broker.log import EVENTS, STATE, Batch, Inbox, Log, Message, Record
from steelyard.testing.engines.claims import admit, at_most, claim
from steelyard.testing.engines.outbox import row
from steelyard_common.errors import EngineError
from steelyard_evaluation.storage.store import Store
from steelyard_schema.account import AccessGrant, APIKey, Identity

Operation = tuple[Any, ...]
Outcome = object
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)

_KEYS = st.sampled_from(["a", "b/c", "b/d", "b-/e", "é", "b/c2"])
_DATA = st.sampled_from([b"", b"1", b"two", b"\0" * 5])
STORE_OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "create"]), _KEYS, _DATA),
        st.tuples(st.just("copy"), _KEYS, _KEYS).filter(lambda operation: operation[1] != operation[2]),
        st.tuples(st.sampled_from(["get", "size", "delete"]), _KEYS),
        st.tuples(st.just("get_range"), _KEYS, st.integers(0, 4), st.integers(1, 4)),
        st.tuples(st.just("list"), st.sampled_from(["", "b", "b/", "b/c", "c", "é"])),
    ),
    max_size=25,
)


async def store_outcomes(store: Store, operations: Sequence[Operation]) -> list[Outcome]:
    """Return the outcomes of operations on a store that is empty at first."""

    async def perform(operation: Operation) -> Outcome:
        match operation:
            case "size", key:
                return (await store.head(key)).size
            case "list", prefix:
                return [(info.key, info.size) async for info in store.list(prefix)]
            case name, *arguments:
                return await getattr(store, name)(*arguments)
        raise AssertionError(operation)

    return [await _outcome(perform, operation) for operation in operations]


_NAMES = st.sampled_from(["alice", "bob", "Bob", "carol"])
_SECONDS = st.integers(0, 100)
_COMMANDS = st.sampled_from([f"c{number}" for number in range(4)])
_SERVERS = st.sampled_from(["", "s1", "s2"])
_ENTITIES = st.sampled_from(["e0", "e1"])
_PLACES = st.tuples(st.integers(1, 2), st.integers(0, 2))
_OF_ACCOUNTS = st.one_of(
    st.tuples(st.just("create"), _NAMES, st.none() | st.sampled_from(["k", "l"]), st.booleans()),
    st.tuples(
        st.sampled_from(["named", "permit", "suspend", "delete", "revoke", "revoke_all", "add_key"]), _NAMES
    ),
    st.tuples(st.just("label"), _NAMES, st.sampled_from(["k", "l"]), st.sampled_from(["v", "w", None])),
    st.tuples(st.just("accounts")),
)
_OF_THE_OUTBOX = st.one_of(
    st.tuples(
        st.sampled_from(["add", "repeated"]),
        _COMMANDS,
        st.none() | st.sampled_from(["k", "l"]),
        st.sampled_from(["r", "s"]),
        _SECONDS,
        _SERVERS,
    ),
    st.tuples(st.sampled_from(["answered", "visible", "unsend", "lost"]), _COMMANDS),
    # A lease of 0 s has ended at once, one of an hour does not end: no clock decides.
    st.tuples(st.sampled_from(["begin", "renew"]), _SERVERS, st.sampled_from([0, 3600])),
    st.tuples(st.sampled_from(["end", "take_over", "unsent_of"]), _SERVERS),
    st.tuples(st.just("in_doubt"), st.sampled_from(["r", "s"]), _SECONDS, _SERVERS),
    st.tuples(st.just("sent"), _COMMANDS, st.integers(0, 9)),
    st.tuples(st.just("expire"), _SECONDS),
    st.tuples(st.sampled_from(["accepted", "expired_request"]), st.sampled_from(["k", "l"])),
    st.tuples(st.sampled_from(["unsent", "pending", "sent_rows"])),
)
_OF_CLAIMS = st.one_of(
    st.tuples(st.just("state"), _ENTITIES, _PLACES, st.sampled_from(["Created", "Complete"]), st.booleans()),
    st.tuples(st.sampled_from(["forget", "remove"]), _ENTITIES, _PLACES),
    st.tuples(st.just("admit"), _ENTITIES, _SECONDS, st.integers(0, 2), st.booleans()),
    st.tuples(st.just("release"), _ENTITIES, _SECONDS),
    st.tuples(st.just("known"), _ENTITIES),
    st.tuples(st.just("positions"), st.integers(1, 2)),
    st.tuples(st.sampled_from(["unfinished", "lead"])),
)
ACCOUNTS_OPERATIONS = {
    "accounts": st.lists(_OF_ACCOUNTS, max_size=30).map(lambda rest: [*rest, ("accounts",)]),
    # An unregistered server adds nothing.
    "outbox": st.lists(_OF_THE_OUTBOX, max_size=30).map(
        lambda rest: [("begin", "s1", 3600), ("begin", "s2", 3600), *rest, ("pending",), ("sent_rows",)]
    ),
    # Without a leader nothing is written.
    "claims": st.lists(_OF_CLAIMS, max_size=30).map(lambda rest: [("lead",), *rest, ("unfinished",)]),
}
"""Histories of each part of an accounts database."""


async def accounts_outcomes(
    accounts: Accounts, outbox: Outbox, claims: Claims, operations: Sequence[Operation]
) -> list[Outcome]:
    """Return the outcomes of operations on an accounts database that is empty at first, and whose ids are counted."""
    database = _Database(accounts, outbox, claims)
    return [await _outcome(database.perform, operation) for operation in operations]


class _Database:
    """An accounts database, with the leader of the moment and the number of keys so far.

    A method for each operation, by its name.
    """

    def __init__(self, accounts: Accounts, outbox: Outbox, claims: Claims) -> None:
        self._accounts, self._outbox, self._claims = accounts, outbox, claims
        self._leader = 0
        self._keys = 0

    def perform(self, operation: Operation) -> Awaitable[Outcome]:
        name, *arguments = operation
        call: Callable[..., Awaitable[Outcome]] = getattr(self, name)
        return call(*arguments)

    async def create(self, name: str, key: str | None, same: bool) -> Outcome:
        request = CreationRequest("me", key, "digest" if same else name) if key else None
        return await self._accounts.create(name, Identity(), NOW, request=request)

    async def named(self, name: str) -> Outcome:
        return await self._accounts.find_by_name(name)

    async def accounts(self) -> Outcome:
        return await self._accounts.list()

    async def permit(self, name: str) -> Outcome:
        return await self._accounts.set_permissions(await self._id(name), [_GRANT])

    async def suspend(self, name: str) -> Outcome:
        return await self._accounts.set_status(await self._id(name), "Suspended", "SuspendCommand", NOW)

    async def label(self, name: str, key: str, value: str | None) -> Outcome:
        return await self._accounts.set_labels(await self._id(name), {key: value})

    async def delete(self, name: str) -> None:
        await self._accounts.delete(await self._id(name), NOW)

    async def add_key(self, name: str) -> None:
        self._keys += 1
        key = APIKey(
            id=f"key{self._keys}", subject="x", created=NOW, expires=NOW + timedelta(1), grants=[_GRANT]
        )
        await self._accounts.add_key(await self._id(name), key, "digest", "p" if name == "bob" else None)

    async def revoke(self, name: str) -> Outcome:
        return await self._accounts.revoke(await self._id(name), f"key{self._keys}")

    async def revoke_all(self, name: str) -> Outcome:
        return await self._accounts.revoke(await self._id(name))

    async def _id(self, name: str) -> str:
        account = await self._accounts.find_by_name(name)
        return "nobody" if account is None else account.id or ""

    async def lead(self) -> Outcome:
        self._leader = await self._claims.lead("one", NOW)
        return self._leader

    async def state(self, id: str, place: tuple[int, int], status: str, moved: bool) -> None:
        ended = NOW if status == "Complete" else None
        state = replace(claim(id), status=status, position=place, terminal_at=ended, message="\0 é")
        await self._claims.apply([(id, state)], place[0], {0: place[1]} if moved else {}, self._leader)

    async def forget(self, id: str, place: tuple[int, int]) -> None:
        await self._claims.apply([(id, ForgottenClaim(place))], place[0], {}, self._leader)

    async def remove(self, id: str, place: tuple[int, int]) -> None:
        await self._claims.apply([(id, None)], place[0], {}, self._leader)

    async def admit(self, id: str, seconds: int, most: int, since: bool) -> Outcome:
        now = NOW + timedelta(seconds=seconds)
        return await admit(self._claims, id, now, at_most(most), self._leader, NOW if since else None)

    async def release(self, id: str, seconds: int) -> None:
        await self._claims.release(id, NOW + timedelta(seconds=seconds), self._leader)

    async def known(self, id: str) -> Outcome:
        return await self._claims.find_claims([id, "nobody"])

    async def unfinished(self) -> Outcome:
        return await self._claims.list_unfinished()

    async def positions(self, epoch: int) -> Outcome:
        return await self._claims.positions(epoch)

    async def add(self, command: str, key: str | None, request: str, seconds: int, server: str) -> Outcome:
        rows = [*await self._outbox.pending(), *await self._outbox.list_sent()]
        if command in {row.command for row in rows}:
            return "a command has one row"
        given: OutboxRow = row(command, request=request, key=key, seconds=seconds, server=server)
        return await self._outbox.add(given, [replace(given, command=f"{command}-1", idempotency_key=None)])

    async def repeated(
        self, command: str, key: str | None, request: str, seconds: int, server: str
    ) -> Outcome:
        return await self._outbox.find_repeat(
            row(command, request=request, key=key, seconds=seconds, server=server)
        )

    async def sent(self, command: str, offset: int) -> None:
        await self._outbox.note_sent(command, (0, offset))

    async def answered(self, command: str) -> None:
        await self._outbox.note_answered([command])

    async def lost(self, command: str) -> None:
        await self._outbox.note_lost([command])

    async def begin(self, server: str, seconds: int) -> None:
        await self._outbox.begin(server or "s3", seconds)

    async def renew(self, server: str, seconds: int) -> None:
        await self._outbox.renew(server, seconds)

    async def end(self, server: str) -> None:
        await self._outbox.end(server)

    async def take_over(self, server: str) -> Outcome:
        return await self._outbox.take_over(server or "s3")

    async def unsent_of(self, server: str) -> Outcome:
        return await self._outbox.unsent(server)

    async def in_doubt(self, request: str, seconds: int, server: str) -> Outcome:
        return await self._outbox.in_doubt(row("new", request=request, seconds=seconds, server=server))

    async def visible(self, command: str) -> None:
        await self._outbox.visible([command, f"{command}-1"])

    async def unsend(self, command: str) -> None:
        await self._outbox.unsend({command: 3})

    async def expire(self, seconds: int) -> Outcome:
        return await self._outbox.expire(NOW + timedelta(seconds=seconds))

    async def accepted(self, key: str) -> Outcome:
        return await self._outbox.find_accepted("a", key)

    async def expired_request(self, key: str) -> Outcome:
        return await self._outbox.find_expired("a", key)

    async def unsent(self) -> Outcome:
        return await self._outbox.unsent()

    async def pending(self) -> Outcome:
        return await self._outbox.pending()

    async def sent_rows(self) -> Outcome:
        return await self._outbox.list_sent()


_GRANT = AccessGrant(resources=["datasets"], functions=["get"], accounts=["a"])


async def _outcome(perform: Callable[[Operation], Awaitable[Outcome]], operation: Operation) -> Outcome:
    try:
        return await perform(operation)
    except EngineError as error:
        return type(error).__name__


_LOG_KEYS = st.sampled_from(["a", "b", "c", "d"])
_LOG_TOPICS = st.sampled_from([EVENTS, EVENTS, STATE])
_LOG_VALUES = st.sampled_from([None, b"", b"1", b"2"])
_MESSAGES = st.lists(st.builds(Message, _LOG_TOPICS, _LOG_KEYS, _LOG_VALUES), max_size=3)
LOG_OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), _MESSAGES),
        st.tuples(st.just("latest"), _LOG_KEYS),
        st.tuples(st.just("everything"), _LOG_TOPICS),
        st.tuples(st.just("look")),
        st.tuples(st.just("work"), st.integers(1, 5)),
        st.tuples(st.just("leave")),
    ),
    max_size=12,
)


async def log_outcomes(log: Log, operations: Sequence[Operation]) -> list[Outcome]:
    """Return the outcomes of operations on a log that is empty at first; offsets are left out."""
    history = _LogHistory(log)
    try:
        return [await _outcome(history.perform, operation) for operation in operations]
    finally:
        await history.leave()


class _LogHistory:
    """Performs operations on a log, with one member of a group that comes and goes."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._inbox: Inbox | None = None
        self._unread = 0

    def perform(self, operation: Operation) -> Awaitable[Outcome]:
        name, *arguments = operation
        call: Callable[..., Awaitable[Outcome]] = getattr(self, name)
        return call(*arguments)

    async def publish(self, messages: Sequence[Message]) -> Outcome:
        self._unread += sum(message.topic == EVENTS for message in messages)
        return _contents(await self._log.publish(messages))

    async def latest(self, key: str) -> Outcome:
        record = await self._log.latest(STATE, key)
        return record and record.value

    async def everything(self, topic: str) -> Outcome:
        return [
            (record.partition, record.key, record.value)
            for partition in range(self._log.partitions)
            for record in await self._log.read(topic, partition, 0)
        ]

    async def leave(self) -> None:
        if self._inbox is not None:
            await self._inbox.close()
            self._inbox = None

    async def _batch(self) -> tuple[Inbox, Batch]:
        """Return all that the group has not read; a batch may have less."""
        inbox = self._inbox = self._inbox or await self._log.inbox("group", EVENTS)
        async with asyncio.timeout(120):
            while True:
                batch = await inbox.batch(limit=100, wait=0)
                if len(batch.records) >= self._unread:
                    return inbox, batch
                await asyncio.sleep(0.01)

    async def look(self) -> Outcome:
        _, batch = await self._batch()
        return _contents(batch.records)

    async def work(self, number: int) -> Outcome:
        """Work on so many records of each partition: which partition comes first differs between logs."""
        inbox, batch = await self._batch()
        taken: list[Record] = []
        positions: dict[int, int] = {}
        for record in batch.records:
            if sum(other.partition == record.partition for other in taken) < number:
                taken.append(record)
                positions[record.partition] = record.offset + 1
        starts = {partition: batch.starts[partition] for partition in positions}
        outputs = [Message(STATE, record.key, b"seen " + (record.value or b"")) for record in taken]
        written = await inbox.transact(Batch(taken, starts, positions), outputs)
        self._unread -= len(taken)
        return _contents(written)


def _contents(records: Sequence[Record]) -> Outcome:
    return sorted(
        (record.partition, record.topic, record.key, record.value or b"", record.value is None)
        for record in records
    )
