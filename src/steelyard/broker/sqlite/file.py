"""The log's database: `steelyard.sqlite` with the log's own error, so that callers need to know one kind of failure."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from steelyard.broker.log import BadMessage, LogError
from steelyard.sqlite import Database, DatabaseError, StatementError
from steelyard.sqlite.writer import T, Work


class LogFile:
    """A `Database` whose errors are LogErrors."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    async def open(cls, path: Path | str, migrations: Sequence[str]) -> "LogFile":
        with _translate_errors():
            return cls(await Database.open(path, migrations))

    async def write(self, work: Work[T]) -> T:
        with _translate_errors():
            return await self._database.write(work)

    def read_now(self, work: Work[T]) -> T:
        with _translate_errors():
            return self._database.read_now(work)

    def version(self) -> int:
        with _translate_errors():
            return self._database.version()

    async def wait_for_change(self, since: int, timeout: float) -> int:
        with _translate_errors():
            return await self._database.wait_for_change(since, timeout)

    async def close(self) -> None:
        await self._database.close()


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except StatementError as error:
        raise BadMessage(str(error)) from error
    except DatabaseError as error:
        raise LogError(str(error)) from error
