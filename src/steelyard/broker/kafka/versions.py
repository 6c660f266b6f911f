"""Check that the brokers are new enough for what the log relies on.

The client sends the newest form of a request that both sides know. Where a broker knows only an older form, the client
leaves out in silence what that lacks. It reports what a broker knows in its log alone, so that is read here.
"""

import logging
import re

from confluent_kafka.admin import AdminClient

from steelyard.broker.kafka.address import Address
from steelyard.broker.log import LogError

OLDEST = "2.5"
"""Oldest version of Kafka that has all that is needed."""
NEEDED = {
    # Brokers refuse positions of a member that has left its group: its partitions are another member's now.
    "TxnOffsetCommit": 3,
    # Positions of a transaction whose end is still being written down are waited for.
    "OffsetFetch": 7,
    # A producer goes on after an error, and one that was replaced learns of it.
    "InitProducerId": 3,
}
"""Requests by the client's names, and the version that brokers have to know."""
_LINE = re.compile(r"ApiKey (\w+) \(\d+\) Versions \d+\.\.(\d+)")


class _SupportedVersions(logging.Handler):
    """The newest version of each request that a broker knows."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: dict[str, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if line := _LINE.search(record.getMessage()):
            self.versions[line[1]] = int(line[2])


def check_versions(address: Address, seconds: float) -> None:
    """Return if the broker that answers first is new enough. Blocks. Raises LogError, KafkaException."""
    known = _SupportedVersions()
    # It has no parent, so that no line of it is shown.
    log = logging.Logger("steelyard.kafka.versions", logging.DEBUG)
    log.addHandler(known)
    client = AdminClient(address.client(debug="feature") | {"logger": log, "log_level": 7})  # type: ignore[arg-type]
    client.list_topics(timeout=seconds)
    client.poll(0)  # passes on what was logged until then
    for request, needed in NEEDED.items():
        # The lines of another client may read otherwise: then no version is known, and that is no fault of the brokers.
        if known.versions and known.versions.get(request, -1) < needed:
            raise LogError(
                f"log {address.url}: Kafka is too old: {OLDEST} or newer is needed, for {request} of version {needed}"
            )
