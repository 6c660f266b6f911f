"""All engines at once, and a settings file that names them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.engines.services.kafka import kafka
from tests.engines.services.mongodb import mongodb
from tests.engines.services.postgresql import postgresql
from tests.engines.services.s3 import client_environment, s3
from tests.engines.services.service import Service


@contextmanager
def services() -> Iterator[dict[str, Service]]:
    """Servers by their names: `broker 0` to `broker 2`, `postgresql`, `s3`, `mongodb`. Raises Missing."""
    with kafka() as cluster, postgresql() as database, s3() as bucket, mongodb() as documents:
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
