"""The contracts of our protocols on real services, and what only they can show.

`python -m tests.engines.services.suite` runs all of them, with `--soak` the long forms alone. A service is started on
free ports, unless the environment names one that is there already.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.engines.services.kafka import jars, kafka
from tests.engines.services.mongodb import mongodb
from tests.engines.services.mongodb import program as mongodb_program
from tests.engines.services.network import require
from tests.engines.services.object_stores import CHOSEN, KINDS
from tests.engines.services.postgresql import postgresql
from tests.engines.services.postgresql import programs as postgresql_programs
from tests.engines.services.s3 import program as s3_program

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
POSTGRESQL, MONGODB = "STEELYARD_TEST_POSTGRESQL", "STEELYARD_TEST_MONGODB"
KAFKA = "STEELYARD_TEST_KAFKA"
"""Names of the variables that name a service: URLs of two empty databases, and of a cluster of brokers.

Those of buckets are in `object_stores.py`.
"""
UNCLOSED = "ignore::pytest.PytestUnraisableExceptionWarning"
"""MongoDB's driver leaves a socket open where its client is closed while it connects to a server that is away."""
LOST_PACKETS = ("test_network.py", "test_resuming.py", "test_lost_packets.py")
"""Tests that lose packets between the platform and its engines."""


@contextmanager
def database() -> Iterator[Mapping[str, str]]:
    with postgresql() as service:
        yield {POSTGRESQL: service.address}


@contextmanager
def documents() -> Iterator[Mapping[str, str]]:
    with mongodb() as service:
        yield {MONGODB: service.address}


@contextmanager
def brokers() -> Iterator[Mapping[str, str]]:
    with kafka() as cluster:
        yield {KAFKA: cluster.address}


def run(
    variable: str, started: Callable[[], AbstractContextManager[Mapping[str, str]]], tests: str, *options: str
) -> int:
    """Run tests with the service that the environment names, or with one that is started for them."""
    command = [sys.executable, "-m", "pytest", "-q", *options, str(HERE / tests)]
    if os.environ.get(variable):
        return subprocess.run(command, cwd=ROOT, check=False).returncode
    with started() as environment:
        return subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=False).returncode


def run_postgresql() -> int:
    return run(POSTGRESQL, database, "accounts")


def run_store(name: str) -> int:
    """Run the tests of object stores on a kind of them."""
    kind = KINDS[name]
    os.environ[CHOSEN] = name
    # fake-gcs-server reads all its objects for each page of a listing.
    return run(kind.variable, kind.bucket, "test_object_stores.py", "--timeout", "900")


def run_mongodb() -> int:
    return run(MONGODB, documents, "test_mongodb.py", "-W", UNCLOSED)


def run_kafka() -> int:
    return run(KAFKA, brokers, "test_kafka.py", str(HERE / "test_kafka_rights.py"))


def run_story() -> int:
    """Run the README's story on servers of its own, which it kills, move an installation to them, run two of each
    service on them, cut them off, replay one history into every pair of log and view, back up and restore, and start
    all servers twice at once.

    Raises Missing where one cannot be had.
    """
    find_programs()
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        str(HERE / "test_story.py"),
        str(HERE / "test_moving.py"),
        str(HERE / "test_several.py"),
        str(HERE / "test_proxy.py"),
        str(HERE / "test_partitions.py"),
        str(HERE / "test_side_by_side.py"),
        str(HERE / "test_replay_pairs.py"),
        str(HERE / "test_backups.py"),
    ]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def run_lost_packets() -> int:
    """Cut servers in network namespaces off from their clients. Raises Missing, without root above all."""
    require()
    find_programs()
    files = [str(HERE / name) for name in LOST_PACKETS]
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-W", UNCLOSED, *files]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def run_soak() -> int:
    """Run the long forms, on servers of their own."""
    options = ["-q", "-s", "-m", "soak", "--timeout", "7200", "-W", UNCLOSED]
    command = [sys.executable, "-m", "pytest", *options, str(HERE)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def find_programs() -> None:
    """Build or install every server. Raises Missing where one cannot be had."""
    postgresql_programs()
    s3_program()
    jars()
    mongodb_program()


if __name__ == "__main__":
    if sys.argv[1:] == ["--soak"]:
        sys.exit(run_soak())
    stores = any(run_store(name) for name in KINDS)
    sys.exit(stores or run_kafka() or run_postgresql() or run_mongodb() or run_story() or run_lost_packets())
