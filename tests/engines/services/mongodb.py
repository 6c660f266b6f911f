"""A server that speaks MongoDB's protocol, in an environment of its own: SecantusDB.

No registry has MongoDB's own server. SecantusDB is a process of the tests alone: it is under the GPL, and nothing of
ours imports it. It has transactions and journals its writes; it has no elections, no majority that could be lost, and
no rollback, so that these are not tested.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymongo
from pymongo.errors import PyMongoError

from tests.engines.control_plane import free_ports
from tests.engines.locked import environment
from tests.engines.services.location import HERE, Location
from tests.engines.services.service import Service

LOCK = Path(__file__).parent / "secantusdb.txt"


def program() -> Path:
    """The server, in the environment of its lock, which is made once per machine. Raises Missing."""
    return environment("secantusdb", LOCK).parent / "secantusd-py"


@contextmanager
def mongodb(place: Location = HERE) -> Iterator[Service]:
    """A server with no database; its address is that of a database `steelyard`. Raises Missing."""
    server = program()
    (port,) = free_ports(1)
    folder = Path(tempfile.mkdtemp(prefix="steelyard-mongodb-"))
    address = f"mongodb://{place.host}:{port}/steelyard?replicaSet=secantus"

    def ready() -> None:
        try:
            with pymongo.MongoClient[dict[str, object]](address, serverSelectionTimeoutMS=500) as client:
                client.admin.command("ping")
        except PyMongoError as error:
            raise OSError(str(error)) from error

    try:
        command = [
            *(
                str(server),
                "--host",
                place.host,
                "--port",
                str(port),
                "--storage-path",
                str(folder / "data"),
            ),
            # Without it a killed server loses what it has confirmed.
            *("--cache-size", "256M", "--sync-on-commit", "--log-level", "WARNING"),
        ]
        # Without `directConnection` the driver asks the server for its address, and goes around a proxy.
        reached = place.reached(port)
        outer = f"mongodb://{reached}/steelyard?replicaSet=secantus"
        outer += "&directConnection=true" if reached != f"{place.host}:{port}" else ""
        service = Service(outer, command, folder, ready, enter=place.enter)
        service.start()
        try:
            yield service
        finally:
            service.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
