"""Words about a cluster, and about why one cannot be used."""

import socket

import pytest

from steelyard.broker.log import LogError

pytest.importorskip("confluent_kafka")
from steelyard.broker.kafka import cluster as kafka_cluster
from steelyard.broker.kafka.address import parse
from steelyard.broker.kafka.cluster import Cluster
from steelyard.broker.kafka.log import describe_copies


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((3, 3, 2, 2), ("3 brokers", "3 replicas, 2 in sync, 2 confirm each record")),
        ((1, 1, 1, 1), ("1 broker", "1 replica, 1 in sync, 1 confirms each record")),
    ],
)
def test_a_single_broker_is_not_one_of_several(
    numbers: tuple[int, int, int, int], words: tuple[str, str]
) -> None:
    assert describe_copies(*numbers) == words


async def test_brokers_that_are_away_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request without an answer says nothing; the connections before it do."""
    with socket.socket() as taken:  # bound and not listening: every connection is refused
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(kafka_cluster, "ANSWER_SECONDS", 5.0)
        with pytest.raises(LogError, match=rf"^log kafka://127.0.0.1:{port}: no broker answers: .*refused"):
            await Cluster(parse(f"kafka://127.0.0.1:{port}")).topics()
