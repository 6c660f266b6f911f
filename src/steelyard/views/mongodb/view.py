"""The view in MongoDB: written by the sinks, read by the API servers, in whatever processes they run.

Every write is one transaction that begins with the document of the view's state: of two writers one waits and begins
again, so that a sink whose epoch is over writes nothing after the resync that ended it. That needs a replica set.
"""

import asyncio
import contextlib
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import pymongo
from pymongo import AsyncMongoClient, IndexModel, ReadPreference, ReplaceOne
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import ConfigurationError, InvalidURI, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from steelyard.engines.addresses import without_password
from steelyard.engines.origin import Origin
from steelyard.views.fields import read
from steelyard.views.matching import check
from steelyard.views.mongodb.documents import (
    ENTITIES,
    GUARD,
    INDEXES,
    ONLY,
    STATE,
    Document,
    document,
    is_newer,
    to_stored,
)
from steelyard.views.mongodb.queries import searches
from steelyard.views.view import STATE as STATE_TOPIC
from steelyard.views.view import Change, Query, StoredEntity, ViewError

T = TypeVar("T")
Client = AsyncMongoClient[Document]
Work = Callable[[AsyncClientSession, Document], Awaitable[T]]

POLL_SECONDS = 0.05
"""Time between two polls of the version while a caller waits for a change."""
CONNECT_SECONDS = 5.0
HEARTBEAT_SECONDS = 2.0
"""Time between two polls of each server by the driver, in addition to those that the server answers when it changes."""
SILENCE_SECONDS = 5.0
"""Time without an answer to such a poll after which the driver ends what waits for the server."""
_LIVE = {"$exists": True}


def make_client(url: str) -> Client:
    """Return a client, which connects when it is first used. Raises ConfigurationError, InvalidURI, ValueError.

    Arguments win over the address. So the driver's default, to send a write again, is not repeated: servers that
    cannot do so have `retryWrites=false` in their address.
    """
    return AsyncMongoClient(
        url,
        serverSelectionTimeoutMS=int(CONNECT_SECONDS * 1000),
        connectTimeoutMS=int(SILENCE_SECONDS * 1000),
        heartbeatFrequencyMS=int(HEARTBEAT_SECONDS * 1000),
        appname="steelyard",
        tz_aware=True,
    )


class MongoView:
    """Opened by `open`; to be closed. Belongs to one event loop."""

    def __init__(self, client: Client, database: str, name: str) -> None:
        options: Any = {
            # A write that a minority has is rolled back when the primary changes: positions would then be
            # ahead of entities.
            "write_concern": WriteConcern("majority", j=True),
            # A secondary lags: a caller that waited for a version would read the state before it.
            "read_preference": ReadPreference.PRIMARY,
        }
        self._client = client
        self._database = client.get_database(database, read_concern=ReadConcern("majority"), **options)
        self._entities = self._database[ENTITIES]
        self._state = self._database[STATE]
        self._name = name
        self._version = 0

    @classmethod
    async def open(cls, url: str) -> "MongoView":
        """Connect to `mongodb://HOST/DATABASE`, and make the indexes that are missing. Raises ViewError."""
        name = without_password(url)
        try:
            client = make_client(url)
            database = client.get_default_database().name
        except (ConfigurationError, InvalidURI, ValueError) as error:
            raise ViewError(f"view {name!r}: {error}; should be mongodb://HOST/DATABASE") from error
        view = cls(client, database, name)
        try:
            with view._translate_errors():
                hello = await client.admin.command("hello")
                # A router of a sharded cluster has no set name of its own and takes transactions.
                if "setName" not in hello and hello.get("msg") != "isdbgrid":
                    raise ViewError(
                        f"view {name}: transactions need a replica set, and this server belongs to none"
                    )
                models = [IndexModel(keys, name=index) for index, keys in INDEXES]
                await view._entities.create_indexes(models)
                await view._state.update_one(
                    {"_id": ONLY},
                    {
                        "$setOnInsert": {
                            "log": "",
                            "epoch": -1,
                            "resync": 0,
                            "swept": 0,
                            "version": 0,
                            "positions": {},
                        }
                    },
                    upsert=True,
                )
                await view._fetch_state()
        except ViewError:
            await client.close()
            raise
        return view

    async def get(self, kind: str, id: str) -> StoredEntity | None:
        entity = await self.find(id)
        return entity if entity is not None and entity.kind == kind else None

    async def find(self, id: str) -> StoredEntity | None:
        with self._translate_errors():
            entity = await self._entities.find_one({"_id": id, "kind": _LIVE})
        return None if entity is None else to_stored(entity)

    async def kinds(self, ids: Collection[str]) -> Mapping[str, str]:
        if not ids:
            return {}
        with self._translate_errors():
            entities = self._entities.find({"_id": {"$in": list(ids)}, "kind": _LIVE}, {"kind": 1})
            return {entity["_id"]: entity["kind"] async for entity in entities}

    async def query(self, query: Query) -> Sequence[StoredEntity]:
        check(query)
        entities: list[StoredEntity] = []
        with self._translate_errors():
            for search in searches(query):
                left = None if query.limit is None else query.limit - len(entities)
                if left == 0:
                    break
                cursor = self._entities.find(search.filter).sort(search.sort).limit(left or 0)
                entities += [to_stored(entity) async for entity in cursor]
        return entities

    async def positions(self, epoch: int) -> Mapping[int, int]:
        with self._translate_errors():
            return _positions(await self._fetch_state(), epoch)

    async def apply(self, changes: Sequence[Change], epoch: int, positions: Mapping[int, int]) -> None:
        parsed = [(change, read(change)) for change in changes]

        async def work(session: AsyncClientSession, state: Document) -> None:
            self._enter(state, epoch)
            await self._put(session, parsed, state["resync"])
            reached = state["positions"]
            for partition, position in positions.items():
                reached[str(partition)] = max(position, reached.get(str(partition), 0))

        await self._write(work)

    async def restart(self, epoch: int) -> None:
        async def work(_session: AsyncClientSession, state: Document) -> None:
            self._enter(state, epoch)
            _begin(state, epoch)

        await self._write(work)

    async def sweep(self, epoch: int, before: Mapping[int, int]) -> int:
        state = await self._read_state()
        # Asked at every start of a sink: mostly there is nothing to do, and no transaction is needed to see
        # it.
        if state["epoch"] == epoch and state["swept"] == state["resync"]:
            return 0

        async def work(session: AsyncClientSession, state: Document) -> int:
            self._enter(state, epoch)
            if state["swept"] == state["resync"]:
                return 0
            reached = _positions(state, epoch)
            if behind := [partition for partition, end in before.items() if reached.get(partition, 0) < end]:
                raise ViewError(f"the resync has not come to the end of partitions {behind}")
            unnamed = {"resync": {"$lt": state["resync"]}}
            count = await self._entities.count_documents({**unnamed, "kind": _LIVE}, session=session)
            await self._entities.delete_many(unnamed, session=session)
            state["swept"] = state["resync"]
            return count

        return await self._write(work)

    async def origin(self) -> Origin | None:
        state = await self._read_state()
        if state["epoch"] < 0:
            return None
        return Origin(state["log"], state["epoch"], {STATE_TOPIC: _positions(state, state["epoch"])})

    async def set_origin(self, log: str, epoch: int) -> None:
        async def work(_session: AsyncClientSession, state: Document) -> None:
            if state["epoch"] >= 0 and (state["log"] not in ("", log) or epoch != state["epoch"]):
                _begin(state, epoch)
            state["log"], state["epoch"] = log, epoch

        await self._write(work)

    def version(self) -> int:
        return self._version

    async def wait_for_change(self, since: int, timeout: float) -> int:
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        while self._version == since and loop.time() < end:
            # The server's own notices of changes are lost with the connection, so that polls are needed all the same.
            with contextlib.suppress(ViewError):
                await self._read_state()
            if self._version == since:
                await asyncio.sleep(min(POLL_SECONDS, max(0.0, end - loop.time())))
        return self._version

    async def facts(self) -> Sequence[str]:
        """Write a document and remove it, in one transaction that leaves nothing behind."""
        # The document has no kind: no query finds it, even before it is removed.
        probe = f"probe-{secrets.token_hex(8)}"

        async def transaction(session: AsyncClientSession) -> None:
            await self._entities.replace_one({"_id": probe}, {"_id": probe}, upsert=True, session=session)
            await self._entities.delete_one({"_id": probe}, session=session)

        with self._translate_errors():
            before = datetime.now(UTC)
            # Answers of commands have times without a zone, in UTC; a server of the protocol alone may give none.
            there = (await self._client.admin.command("hello")).get("localTime")
            async with self._client.start_session() as session:
                await session.with_transaction(transaction)
        return (
            "transactions",
            "a majority confirms each write",
            "indexes",
            *((f"clock {(there.replace(tzinfo=UTC) - before).total_seconds():+.1f} s",) if there else ()),
            "writes and removes",
        )

    async def close(self) -> None:
        # The driver says goodbye to the server, and waits for its answer; what notices a silent server may have
        # ended already: the end of an event loop cancels the driver's own tasks too.
        with pymongo.timeout(SILENCE_SECONDS):
            await self._client.close()

    def _enter(self, state: Document, epoch: int) -> None:
        if epoch < state["epoch"]:
            raise ViewError(f"epoch {epoch} is over: the view has seen epoch {state['epoch']}")
        if epoch > state["epoch"]:
            _begin(state, epoch)

    async def _put(
        self, session: AsyncClientSession, changes: Sequence[tuple[Change, Any]], resync: int
    ) -> None:
        ids = list({change.id for change, _ in changes})
        known: dict[str, Mapping[str, Any]] = {
            there["_id"]: there
            async for there in self._entities.find({"_id": {"$in": ids}}, GUARD, session=session)
        }
        newest: dict[str, Document] = {}
        for change, entity in changes:
            if is_newer(change, resync, newest.get(change.id) or known.get(change.id)):
                newest[change.id] = document(change, entity, resync)
        if newest:
            writes = [ReplaceOne({"_id": id}, entity, upsert=True) for id, entity in newest.items()]
            await self._entities.bulk_write(writes, ordered=False, session=session)

    async def _write(self, work: Work[T]) -> T:
        """Run `work` on the view's state, and write what it made of it, in one transaction."""

        async def transaction(session: AsyncClientSession) -> tuple[T, int]:
            # Written first: of two transactions the later one fails here, and is begun again by the library.
            state = await self._state.find_one_and_update(
                {"_id": ONLY}, {"$inc": {"version": 1}}, return_document=True, session=session
            )
            assert state is not None, "made when the view was opened"
            result = await work(session, state)
            await self._state.replace_one({"_id": ONLY}, state, session=session)
            return result, int(state["version"])

        with self._translate_errors():
            async with self._client.start_session() as session:
                result, version = await session.with_transaction(transaction)
        self._version = max(self._version, version)
        return result

    async def _fetch_state(self) -> Document:
        state = await self._state.find_one({"_id": ONLY})
        if state is None:
            raise ViewError(f"view {self._name}: its state was removed; open the view again")
        self._version = max(self._version, int(state["version"]))
        return state

    async def _read_state(self) -> Document:
        with self._translate_errors():
            return await self._fetch_state()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """The library's errors in our words."""
        try:
            yield
        except PyMongoError as error:
            # What follows are the driver's time-outs and its picture of all servers.
            message = re.split(r" \(configured timeouts|, Timeout: ", " ".join(str(error).split()))[0]
            raise ViewError(f"view {self._name}: {message}") from error


def _begin(state: Document, epoch: int) -> None:
    state["epoch"], state["positions"], state["resync"] = epoch, {}, state["resync"] + 1


def _positions(state: Document, epoch: int) -> dict[int, int]:
    if state["epoch"] != epoch:
        return {}
    return {int(partition): position for partition, position in state["positions"].items()}
