"""PostgreSQL as Debian packages it, in a folder of its own and never as root."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.engines.build import Missing
from tests.engines.control_plane import free_ports
from tests.engines.services.location import HERE, Location
from tests.engines.services.service import Service

SETTINGS = """
max_connections = 200
shared_buffers = 64MB
jit = off
"""


def programs() -> Path:
    """The folder of the newest PostgreSQL on this machine. Raises Missing."""
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3])
    )
    if folders:
        return folders[-1].parent
    if program := shutil.which("postgres"):
        return Path(program).resolve().parent
    raise Missing("PostgreSQL is not installed")


@contextmanager
def postgresql(place: Location = HERE) -> Iterator[Service]:
    """A server with an empty database `steelyard`; its address is a URL for clients."""
    binaries = programs()
    user = "postgres" if os.geteuid() == 0 else None
    # Short and readable for that user: a socket's path has at most 107 bytes, and the server refuses to run as root.
    folder = Path(tempfile.mkdtemp(prefix="steelyard-postgresql-", dir="/tmp"))
    (port,) = free_ports(1)
    try:
        data = folder / "data"
        if user is not None:
            shutil.chown(folder, user, user)
        initdb = [str(binaries / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        subprocess.run(
            [*initdb, "--locale=C.UTF-8", "--no-sync"],
            user=user,
            extra_groups=[] if user else None,
            cwd=folder,
            check=True,
            capture_output=True,
        )
        with (data / "postgresql.conf").open("a") as file:
            file.write(f"{SETTINGS}port = {port}\nunix_socket_directories = '{folder}'\n")
            file.write(f"listen_addresses = '{place.host}'\n")
        with (data / "pg_hba.conf").open("a") as file:
            file.write("host all all samenet trust\n")
        server = f"postgresql://postgres@{place.host}:{port}"

        def ready() -> None:
            try:
                psycopg.connect(f"{server}/postgres", connect_timeout=10).close()
            except psycopg.OperationalError as error:
                raise OSError(str(error)) from error

        command = [str(binaries / "postgres"), "-D", str(data)]
        address = f"postgresql://postgres@{place.reached(port)}/steelyard"
        service = Service(address, command, folder, ready, user=user, enter=place.enter)
        service.start()
        try:
            with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
                connection.execute("CREATE DATABASE steelyard")
            yield service
        finally:
            service.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
