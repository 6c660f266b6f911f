"""Rules that hold for a controller that is refused, whichever it is."""

from collections import Counter
from collections.abc import Collection, Iterator

from steelyard_kube.objects import read_conditions, read_status
from tests.refusals.refusing import BUSY, TAKEN, RefusingCluster

MINUTE = 60.0
TRIES = (13, 6)
"""Tries in the first minute, and in each later one, of a queue whose longest pause is 10 s."""
WRITES = 9
"""Most writes of one try."""
STATUSES = 10
"""Most writes of the status of one kind in two minutes; an AppWrapper, which starts again, has that many phases."""


def judge(cluster: RefusingCluster, *, silent: bool = False) -> None:
    """Fail unless a refused controller waited between its tries, and told its object why."""
    for minute, tries in enumerate(TRIES):
        writes = cluster.between(minute * MINUTE, (minute + 1) * MINUTE)
        assert sum(writes.values()) <= tries * WRITES, writes
    statuses = Counter(str(attempt.resource) for attempt in cluster.done if "/status" in attempt.verb)
    # A Deployment counts each name that is taken, as Kubernetes' own does.
    most = sum(TRIES) * 3 if cluster.way == TAKEN else STATUSES
    assert all(count <= most for count in statuses.values()), statuses
    assert cluster.refused, "nothing was refused: the case proves nothing"
    if not silent and cluster.way not in BUSY:
        assert any(refusal_in(text, cluster.messages) for text in said(cluster)), cluster.messages


def said(cluster: RefusingCluster) -> Iterator[str]:
    """Yield what people can read of all objects: warnings, conditions, messages."""
    for obj in cluster.store.objects():
        if obj.get("kind") == "Event" and obj["type"] == "Warning":
            yield obj["message"]
        yield from (str(condition.get("message") or "") for condition in read_conditions(obj))
        yield str(read_status(obj).get("message") or "")


def refusal_in(text: str, messages: Collection[str]) -> bool:
    """Return whether a text has a refusal's words in it; a name that is taken has words of its own."""
    is_taken = any(word in text for word in ("already", "belongs to"))
    return any(message in text or (is_taken and "already exists" in message) for message in messages)
