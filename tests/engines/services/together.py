"""All engines at once, and a settings file that names them."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.engines.services.kafka import kafka
from tests.engines.services.mongodb import mongodb
from tests.engines.services.postgresql import postgresql
from tests.engines.services.proxy import Proxy, Through, direct, proxy
from tests.engines.services.s3 import client_environment, s3
from tests.engines.services.service import Service


@contextmanager
def services(proxies: dict[str, list[Proxy]] | None = None) -> Iterator[dict[str, Service]]:
    """Servers by their names: `broker 0` to `broker 2`, `postgresql`, `s3`, `mongodb`. Raises Missing.

    Where `proxies` is given, clients reach the servers by proxies, which it then holds by the engines' names: `kafka`,
    `postgresql`, `s3`, `mongodb`.
    """
    with ExitStack() as stack:

        def through(engine: str) -> Through:
            if proxies is None:
                return direct
            of_engine = proxies.setdefault(engine, [])

            def behind(port: int) -> int:
                of_engine.append(stack.enter_context(proxy(port)))
                return of_engine[-1].port

            return behind

        cluster = stack.enter_context(kafka(through=through("kafka")))
        database = stack.enter_context(postgresql(through("postgresql")))
        bucket = stack.enter_context(s3(through("s3")))
        documents = stack.enter_context(mongodb(through("mongodb")))
        brokers = {f"broker {number}": broker for number, broker in enumerate(cluster.brokers)}
        yield {"postgresql": database, "s3": bucket, "mongodb": documents, **brokers}


def write_settings(path: Path, services: Mapping[str, Service]) -> Mapping[str, str]:
    """Write a settings file that names the servers; return the variables with the credentials of the bucket."""
    credentials = client_environment(services["s3"])
    brokers = ",".join(service.address for name, service in services.items() if name.startswith("broker"))
    lines = [
        f'log = "kafka://{brokers}"',
        f'accounts = "{services["postgresql"].address}"',
        f'view = "{services["mongodb"].address}"',
        'storage = "s3://steelyard/storage"',
        'backup = "s3://steelyard/backup"',
        "[orchestrator.storage_credentials]",
        *(f'{name} = "{value}"' for name, value in credentials.items()),
    ]
    path.write_text("\n".join(lines))
    return credentials
