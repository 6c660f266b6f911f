"""All engines at once, and a settings file that names them."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.engines.services.kafka import kafka
from tests.engines.services.location import HERE, Location
from tests.engines.services.mongodb import mongodb
from tests.engines.services.network import Network, network
from tests.engines.services.postgresql import postgresql
from tests.engines.services.proxy import Proxy, proxy
from tests.engines.services.s3 import client_environment, s3
from tests.engines.services.service import Service

ENGINES = ("mongodb", "postgresql", "kafka", "s3")


@contextmanager
def services(places: Mapping[str, Location] | None = None) -> Iterator[dict[str, Service]]:
    """Servers by their names: `broker 0` to `broker 2`, `postgresql`, `s3`, `mongodb`. Raises Missing.

    `places` says by the engines' names (`kafka` for the brokers) where they run; by default, here.
    """
    place = dict.fromkeys(ENGINES, HERE) | dict(places or {})
    with ExitStack() as stack:
        cluster = stack.enter_context(kafka(place=place["kafka"]))
        database = stack.enter_context(postgresql(place["postgresql"]))
        bucket = stack.enter_context(s3(place["s3"]))
        documents = stack.enter_context(mongodb(place["mongodb"]))
        brokers = {f"broker {number}": broker for number, broker in enumerate(cluster.brokers)}
        yield {"postgresql": database, "s3": bucket, "mongodb": documents, **brokers}


@contextmanager
def behind_proxies(proxies: dict[str, list[Proxy]]) -> Iterator[dict[str, Service]]:
    """Servers whose clients reach them by proxies, which are put into `proxies` by the engines' names."""
    with ExitStack() as stack:

        def behind(engine: str) -> Location:
            of_engine = proxies.setdefault(engine, [])

            def through(port: int) -> int:
                of_engine.append(stack.enter_context(proxy(port)))
                return of_engine[-1].port

            return Location(through=through)

        yield stack.enter_context(services({engine: behind(engine) for engine in ENGINES}))


@contextmanager
def in_networks(networks: dict[str, list[Network]], *, silent: bool) -> Iterator[dict[str, Service]]:
    """Servers in networks of their own, one for each engine, which are put into `networks`. Raises Missing."""
    with ExitStack() as stack:
        for engine in ENGINES:
            networks[engine] = [stack.enter_context(network(silent=silent))]
        yield stack.enter_context(services({engine: made.place for engine, (made,) in networks.items()}))


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
