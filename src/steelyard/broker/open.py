"""The log that an address names."""

from steelyard.broker.in_memory import MemoryLog
from steelyard.broker.log import PARTITIONS, Log, LogError, PartitionsDiffer, Prepared
from steelyard.broker.sqlite.log import open_sqlite_log
from steelyard.engines.addresses import without_password


async def open_log(url: str, partitions: int = PARTITIONS) -> Log:
    """`sqlite:PATH`, `kafka://HOST:PORT` or `memory:`. Raises LogError, which says what is wrong with the address."""
    scheme, _, rest = url.partition(":")
    if scheme == "memory":
        return MemoryLog(partitions)
    if scheme == "sqlite" and rest:
        return await _open_sqlite(url, rest, partitions)
    if scheme == "kafka" and rest.startswith("//"):
        return await _open_kafka(url, partitions)
    raise LogError(f"log {without_password(url)!r}: should be sqlite:PATH, kafka://HOST:PORT or memory:")


async def _open_sqlite(url: str, path: str, partitions: int) -> Log:
    try:
        return await open_sqlite_log(path, partitions)
    except PartitionsDiffer as error:
        raise PartitionsDiffer(f"log {url!r}: {error}") from error
    except LogError as error:
        raise LogError(f"log {url!r}: {error}") from error


async def _open_kafka(url: str, partitions: int) -> Log:
    try:
        from steelyard.broker.kafka.log import open_kafka_log
    except ModuleNotFoundError as error:
        raise LogError(f"log: Kafka needs {error.name}: pip install 'steelyard[kafka]'") from error
    return await open_kafka_log(url, partitions)


async def prepare_log(url: str, partitions: int = PARTITIONS) -> Prepared | None:
    """Make the topics of a log in Kafka, or give those of an earlier version today's settings; None for other logs.

    Raises LogError.
    """
    if not url.startswith("kafka:"):
        return None
    try:
        from steelyard.broker.kafka.log import prepare_kafka_log
    except ModuleNotFoundError as error:
        raise LogError(f"log: Kafka needs {error.name}: pip install 'steelyard[kafka]'") from error
    return await prepare_kafka_log(url, partitions)
