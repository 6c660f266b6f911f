"""Choice of the Pod that answers a connection or a datagram: in turn, or the one that answered this client before."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count

from steelyard_local_kubernetes.names.table import Address, Forwards

MOST_CLIENTS = 4096
"""Number of clients of all Services with affinity; those that have been quiet longest are forgotten first."""


class Choice:
    """The addresses behind each front, in the order in which they are to be tried."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._behind: Forwards = {}
        self._affinity: Mapping[Address, float] = {}
        self._turn = count()
        self._last: dict[tuple[Address, str], tuple[Address, float]] = {}

    def show(self, behind: Forwards, affinity: Mapping[Address, float]) -> None:
        """Take the addresses behind each front, and the seconds of affinity of those that have it."""
        self._behind, self._affinity = behind, affinity

    def order(self, front: Address, client: str) -> Iterator[Address]:
        """Yield the addresses to try: first the one that answered this client before, then the others in turn."""
        behind, first = self._behind.get(front, ()), next(self._turn)
        known = self._last_answerer(front, client)
        if known in behind:
            yield known
        for offset in range(len(behind)):
            address = behind[(first + offset) % len(behind)]
            if address != known:
                yield address

    def is_behind(self, front: Address, address: Address) -> bool:
        return address in self._behind.get(front, ())

    def note_answer(self, front: Address, client: str, address: Address) -> None:
        """Remember who answered a client of a Service with affinity."""
        if not self._affinity.get(front):
            return
        # Put in again at the end: the first ones are those that have been quiet longest.
        self._last.pop((front, client), None)
        self._last[front, client] = address, self._monotonic()
        if len(self._last) > MOST_CLIENTS:
            del self._last[next(iter(self._last))]

    def _last_answerer(self, front: Address, client: str) -> Address | None:
        address, since = self._last.get((front, client), (None, 0.0))
        seconds = self._affinity.get(front, 0.0)
        return address if self._monotonic() - since < seconds else None
