"""The replicas of a session: who gets the next call, and who gets a rest.

Every replica has connections of its own. Of those without a fault, the one with the fewest calls in flight is next; one
that fails rests with growing delays and comes back with a single call, so that a dying replica costs only what it had
in flight.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from steelyard_evaluation.engine.alarm import Alarm
from steelyard_evaluation.engine.call import Client, Failure, Fault, Outcome
from steelyard_evaluation.engine.limit import Concurrency, Limit
from steelyard_evaluation.engine.retry import RetryPolicy

PATIENCE = 3
"""Failures in a row after which a replica that still accepts connections rests: single ones are chance."""


class Stopped(Exception):
    """No more calls are handed out."""


@dataclass(eq=False)
class Replica:
    """One replica and its state."""

    address: str
    client: Client
    limit: Limit
    in_flight: int = 0
    done: int = 0
    failures: int = 0
    """Failures in a row. Of calls that were in flight together, only the first counts."""
    failed_at: float = float("-inf")
    answered_at: float = float("-inf")
    rests: int = 0
    """Number of rests since its last success: the retry limit counts them."""
    unreachable_since: float | None = None
    """Time since when there has been no connection to it; None where the last call had one."""
    refused: int = 0
    """Connections that failed in a row: they count by their time, not by their number."""
    resting_until: float = 0.0
    gone: bool = False
    closed: bool = False
    """True once it said that it refuses every call, and that waiting would not help."""


Opened = Callable[[str], Client]


class Pool:
    """Hands out replicas; on each run as many calls as `concurrency` allows, on all of them as there is `room` for."""

    def __init__(
        self,
        concurrency: Concurrency,
        policy: RetryPolicy,
        jitter: Callable[[], float],
        opened: Opened,
        room: int = 1 << 20,
    ) -> None:
        self._concurrency = concurrency
        self._room = room
        self._policy = policy
        self._jitter = jitter
        self._opened = opened
        self._replicas: dict[str, Replica] = {}
        self._waiting: deque[asyncio.Future[Replica]] = deque()
        self._alarm = Alarm(self._serve_waiting)
        self._stopped = False
        self._clients: set[Client] = set()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def replicas(self) -> Iterable[Replica]:
        return self._replicas.values()

    @property
    def addresses(self) -> frozenset[str]:
        return frozenset(self._replicas)

    @property
    def capacity(self) -> int:
        """Number of calls that could be made at once."""
        return min(self._room, self._concurrency.most * len(self._replicas))

    @property
    def call_limit(self) -> int:
        """Number of calls that may be made at once now."""
        return sum(map(self._limit, self._replicas.values()))

    @property
    def in_flight(self) -> int:
        return sum(replica.in_flight for replica in self._replicas.values())

    @property
    def exhausted(self) -> bool:
        """Return whether every replica has failed more often in a row, or been away for longer, than the policy
        allows.
        """
        return bool(self._replicas) and all(map(self._exhausted, self.replicas))

    @property
    def closed(self) -> bool:
        """Return whether every replica refuses every call for good."""
        return bool(self._replicas) and all(replica.closed for replica in self.replicas)

    @property
    def unreachable(self) -> bool:
        """Return whether no replica takes connections."""
        return bool(self._replicas) and all(r.unreachable_since is not None for r in self.replicas)

    def add(self, address: str) -> None:
        if address not in self._replicas:
            client = self._opened(address)
            self._clients.add(client)
            self._replicas[address] = Replica(address, client, Limit(self._concurrency))
            self._serve_waiting()

    def drop(self, address: str) -> None:
        """Send nothing more to `address`; requests in flight may end."""
        replica = self._replicas.pop(address, None)
        if replica is not None:
            # Its connections stay open until its last call has ended: closed now, answers that are paid for would be
            # lost.
            replica.gone = True
            self._close(replica)

    async def acquire(self) -> Replica:
        """The replica for the next call, now one call richer; waits while all are busy or rest. Raises Stopped."""
        if self._stopped:
            raise Stopped
        replica = self._choose()
        if replica is None:
            # Served in the order of waiting, so that no worker starves while others get each free place.
            waiter: asyncio.Future[Replica] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                return await waiter
            except asyncio.CancelledError:
                # A replica was handed over in the moment of the cancellation; kept, its place would be taken for
                # ever.
                if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                    waiter.result().in_flight -= 1
                raise
        replica.in_flight += 1
        return replica

    def stop(self) -> None:
        """Hand out no more calls: there will be none."""
        self._stopped = True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(Stopped())
        self._waiting.clear()

    def release(
        self, replica: Replica, outcome: Outcome, sent_at: float, row_failed_at: float | None = None
    ) -> None:
        """End the call that was sent at `sent_at` with `outcome`.

        `row_failed_at` is the time at which the call's row first failed on `replica`, None where it never did.
        """
        now, in_flight = asyncio.get_running_loop().time(), replica.in_flight
        replica.in_flight -= 1
        match outcome:
            case Failure(fault=Fault.FOREIGN):
                # Something else listens at the address: a Pod that ended gave it back, and another one got it.
                self.drop(replica.address)
            case Failure(fault=Fault.FINAL):
                replica.closed, replica.failures = True, replica.failures + 1
            case Failure(fault=Fault.UNREACHABLE | Fault.UNTRUSTED | Fault.TRANSIENT):
                replica.limit.note_failure(now, sent_at, in_flight, overload=outcome.overload)
                # A row that failed before the replica answered others has a fault of its own. Rows that fail at each
                # try are the last ones of a run: counted, they would end it as a dead replica does.
                own = row_failed_at is not None and replica.answered_at > row_failed_at
                if not (own and outcome.fault is Fault.TRANSIENT):
                    self._note_failure(replica, outcome, sent_at, now)
            case _:
                replica.limit.note_answer(now, sent_at, in_flight)
                replica.answered_at = now
                replica.done += 1
                # One answer is enough: a replica that came back gets all its calls again at once.
                replica.failures = replica.rests = replica.refused = 0
                replica.unreachable_since, replica.resting_until = None, 0.0
        if replica.gone:
            self._close(replica)
        self._serve_waiting()

    def give_back(self, replica: Replica) -> None:
        """The call for which `replica` was acquired is not made."""
        replica.in_flight -= 1
        if replica.gone:
            self._close(replica)
        self._serve_waiting()

    async def close(self) -> None:
        """Close every connection, also of calls that have been cancelled."""
        # Cleared first, so that a call that ends meanwhile is not followed by another one.
        self._replicas.clear()
        self._alarm.cancel()
        for client in self._clients:
            await client.close()
        await asyncio.gather(*self._closing)

    def _note_failure(self, replica: Replica, failure: Failure, sent_at: float, now: float) -> None:
        if sent_at <= replica.failed_at:
            return  # it was in flight when an earlier one failed: the same fault, seen again
        replica.failed_at = now
        replica.failures += 1
        if failure.fault is Fault.UNREACHABLE:
            if replica.unreachable_since is None:
                replica.unreachable_since = now
            replica.refused += 1
            replica.resting_until = now + self._policy.connect_delay(replica.refused, self._jitter())
            return
        # It took the connection, so it is there; that it failed is counted otherwise.
        replica.unreachable_since, replica.refused = None, 0
        if failure.fault is Fault.UNTRUSTED or replica.rests or replica.failures >= PATIENCE:
            replica.rests += 1
            delay = self._policy.delay(replica.rests, self._jitter(), failure.retry_after)
            replica.resting_until = now + delay

    def _exhausted(self, replica: Replica) -> bool:
        since = replica.unreachable_since
        away = 0.0 if since is None else asyncio.get_running_loop().time() - since
        return (
            replica.closed
            or self._policy.exhausted(replica.rests)
            or (since is not None and away >= self._policy.wait_for_server)
        )

    def _choose(self) -> Replica | None:
        now = asyncio.get_running_loop().time()
        best, wake_at = None, None
        for replica in self._replicas.values():
            if replica.resting_until > now:
                wake_at = replica.resting_until if wake_at is None else min(wake_at, replica.resting_until)
            elif replica.in_flight < self._limit(replica) and (best is None or _before(replica, best)):
                best = replica
        if best is None and wake_at is not None:
            # One alarm at most: each call that ends while a replica rests comes by here, thousands in one rest.
            self._alarm.set(wake_at)
        return best

    def _limit(self, replica: Replica) -> int:
        if replica.closed or self._policy.exhausted(replica.rests):
            return 0
        # One probe at a time: a server that has just come back would be hit by all calls at once, and fall
        # over again.
        return 1 if replica.rests or replica.refused else replica.limit.value

    def _serve_waiting(self) -> None:
        while self._waiting:
            # It was cancelled while it waited.
            if self._waiting[0].done():
                self._waiting.popleft()
                continue
            replica = self._choose()
            if replica is None:
                return
            replica.in_flight += 1
            self._waiting.popleft().set_result(replica)

    def _close(self, replica: Replica) -> None:
        if replica.in_flight == 0 and replica.client in self._clients:
            self._clients.discard(replica.client)
            task = asyncio.get_running_loop().create_task(replica.client.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _before(one: Replica, other: Replica) -> bool:
    """Return whether `one` is the better choice: without a fault since its last success, then with fewer calls
    in flight.
    """
    return (one.failures, one.in_flight, one.done) < (other.failures, other.in_flight, other.done)
