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
from tests.engines.services.postgresql import postgresql
from tests.engines.services.postgresql import programs as postgresql_programs
from tests.engines.services.s3 import client_environment, s3
from tests.engines.services.s3 import program as s3_program

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
POSTGRESQL, S3, MONGODB = "STEELYARD_TEST_POSTGRESQL", "STEELYARD_TEST_S3", "STEELYARD_TEST_MONGODB"
KAFKA = "STEELYARD_TEST_KAFKA"
"""Names of the variables that name a service: URLs of an empty database, bucket, database and cluster of brokers.

The credentials of the bucket come from the environment, as they do for the product.
"""


@contextmanager
def database() -> Iterator[Mapping[str, str]]:
    with postgresql() as service:
        yield {POSTGRESQL: service.address}


@contextmanager
def bucket() -> Iterator[Mapping[str, str]]:
    with s3() as service:
        yield {S3: "s3://steelyard", **client_environment(service)}


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
    return run(POSTGRESQL, database, "test_postgresql.py")


def run_s3() -> int:
    return run(S3, bucket, "test_s3.py")


def run_mongodb() -> int:
    # The driver leaves a socket open where its client is closed while it connects to a server that is away.
    unclosed = "ignore::pytest.PytestUnraisableExceptionWarning"
    return run(MONGODB, documents, "test_mongodb.py", "-W", unclosed)


def run_kafka() -> int:
    return run(KAFKA, brokers, "test_kafka.py")


def run_story() -> int:
    """Run the README's story on servers of its own, which it kills, move an installation to such ones, run two of each
    service on them, cut them off, replay one history into every pair of log and view, and back up and restore.

    Raises Missing where one cannot be had.
    """
    postgresql_programs()
    s3_program()
    jars()
    mongodb_program()
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
        str(HERE / "test_replay_pairs.py"),
        str(HERE / "test_backups.py"),
    ]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def run_soak() -> int:
    """Run the long forms, on servers of their own."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-m", "soak", "--timeout", "7200", str(HERE)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    if sys.argv[1:] == ["--soak"]:
        sys.exit(run_soak())
    sys.exit(run_s3() or run_kafka() or run_postgresql() or run_mongodb() or run_story())
