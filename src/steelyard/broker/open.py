"""The log that an address names."""

from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import PARTITIONS, Log, LogError, PartitionsDiffer
from steelyard.broker.sqlite.log import open_sqlite_log


async def open_log(url: str, partitions: int = PARTITIONS) -> Log:
    """`sqlite:PATH` or `memory:`. Raises LogError, which says what is wrong with the address."""
    scheme, _, rest = url.partition(":")
    if scheme == "memory":
        return MemoryLog(partitions)
    if scheme == "sqlite" and rest:
        return await _open_sqlite(url, rest, partitions)
    if scheme == "kafka":
        raise LogError(f"log {url!r}: Kafka is not implemented yet; use sqlite:PATH")
    raise LogError(f"log {url!r}: should be sqlite:PATH or memory:")


async def _open_sqlite(url: str, path: str, partitions: int) -> Log:
    try:
        return await open_sqlite_log(path, partitions)
    except PartitionsDiffer as error:
        raise PartitionsDiffer(f"log {url!r}: {error}") from error
    except LogError as error:
        raise LogError(f"log {url!r}: {error}") from error
