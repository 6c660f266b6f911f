"""The view on one machine: a SQLite file that the sink writes and the API reads, in whatever processes they run."""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from steelyard.engines.origin import Origin
from steelyard.sqlite import Damaged, Database, DatabaseError, NewerSchema, StatementError, WrongSchema
from steelyard.sqlite.file import Turn
from steelyard.views.fields import read
from steelyard.views.matching import check
from steelyard.views.sqlite import reading, writing
from steelyard.views.sqlite.plan import BOUNDS, Bounds
from steelyard.views.sqlite.tables import MIGRATIONS
from steelyard.views.view import BadChange, Change, Query, StoredEntity, ViewError

_log = logging.getLogger(__name__)
# Ids are random, so that a write touches pages all over the indexes: the writer keeps up to 32 MB of them.
_CACHE = "PRAGMA cache_size = -32768"


class SqliteView:
    """Opened by `open`; to be closed."""

    def __init__(self, database: Database, bounds: Bounds) -> None:
        self._database = database
        self._bounds = bounds

    @classmethod
    async def open(cls, path: Path | str, bounds: Bounds = BOUNDS) -> "SqliteView":
        """A file that is damaged or has other tables is put aside: a view is built again from the log.

        Raises ViewError, also for a file of a newer version.
        """
        with _translate_errors():
            inode = await asyncio.to_thread(_inode, Path(path))
            try:
                database = await Database.open(path, MIGRATIONS)
            # Put aside, the file of a newer version would be lost to it when it is installed again.
            except NewerSchema:
                raise
            except (Damaged, WrongSchema) as error:
                aside = await asyncio.to_thread(_put_aside, Path(path), inode)
                _log.warning("%s; it is kept as %s, and the view is built again from the log", error, aside)
                database = await Database.open(path, MIGRATIONS)
            await database.write(lambda connection: connection.execute(_CACHE))
            return cls(database, bounds)

    async def get(self, kind: str, id: str) -> StoredEntity | None:
        """Return an entity.

        It is read on the event loop's thread: it takes some microseconds, less than a change of thread would.
        """
        with _translate_errors():
            return self._database.read_now(lambda connection: reading.get(connection, kind, id))

    async def find(self, id: str) -> StoredEntity | None:
        with _translate_errors():
            return self._database.read_now(lambda connection: reading.find(connection, id))

    async def kinds(self, ids: Collection[str]) -> Mapping[str, str]:
        with _translate_errors():
            return await self._database.read(lambda connection: reading.kinds(connection, ids))

    async def query(self, query: Query) -> Sequence[StoredEntity]:
        check(query)
        with _translate_errors():
            return await self._database.read(lambda connection: reading.run(connection, query, self._bounds))

    async def positions(self, epoch: int) -> Mapping[int, int]:
        with _translate_errors():
            return await self._database.read(lambda connection: reading.positions(connection, epoch))

    async def apply(self, changes: Sequence[Change], epoch: int, positions: Mapping[int, int]) -> None:
        entities = [(change, read(change)) for change in changes]
        with _translate_errors():
            await self._database.write(
                lambda connection: writing.apply(connection, entities, epoch, positions)
            )

    async def restart(self, epoch: int) -> None:
        with _translate_errors():
            await self._database.write(lambda connection: writing.restart(connection, epoch))

    async def sweep(self, epoch: int, before: Mapping[int, int]) -> int:
        with _translate_errors():
            return await self._database.write(lambda connection: writing.sweep(connection, epoch, before))

    async def origin(self) -> Origin | None:
        with _translate_errors():
            return await self._database.read(reading.origin)

    async def set_origin(self, log: str, epoch: int) -> None:
        with _translate_errors():
            await self._database.write(lambda connection: writing.set_origin(connection, log, epoch))

    def version(self) -> int:
        return self._database.version()

    async def wait_for_change(self, since: int, timeout: float) -> int:
        with _translate_errors():
            return await self._database.wait_for_change(since, timeout)

    async def facts(self) -> Sequence[str]:
        return ("can be opened",)

    async def close(self) -> None:
        await self._database.close()


def _inode(path: Path) -> int | None:
    return path.stat().st_ino if path.exists() else None


def _put_aside(path: Path, inode: int | None) -> Path:
    """Rename the file of this inode, unless another process has done it; where it is now."""
    aside = Path(f"{path}.aside-{inode}")
    turn = Turn(path)
    try:
        with turn.taking_turn():
            # Of two processes that find the same damaged file, the second would put the new view aside.
            if _inode(path) == inode:
                for suffix in ("-wal", "-shm"):
                    # Left there, they would be taken for the new file's and overwrite it.
                    Path(f"{path}{suffix}").unlink(missing_ok=True)
                path.rename(aside)
    finally:
        turn.close()
    return aside


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except StatementError as error:
        raise BadChange(str(error)) from error
    except DatabaseError as error:
        raise ViewError(str(error)) from error
