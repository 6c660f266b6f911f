"""One call of one replica: what can come of it.

Nothing here retries; an `Outcome` says what happened; `pool.py` and `settle.py` decide what follows. `clients` makes
the calls.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Protocol

from steelyard_common.refused_calls import find_reason, is_incurable
from steelyard_evaluation.engine.retry import is_transient, retry_after
from steelyard_schema.hosted_model import STOPPED

MAX_ANSWER_BYTES = 64 << 20
KEPT_BODY_BYTES = 4096
"""Bytes of a refused request's answer that are kept with the row error."""


class Fault(Enum):
    """Kind of a failure, as the retry rules need it."""

    UNREACHABLE = "Unreachable"
    """No connection: the replica is gone, nothing was sent."""
    UNTRUSTED = "Untrusted"
    """No connection that may be used, such as one whose certificate is wrong: nothing was sent."""
    TRANSIENT = "Transient"
    """Overload, a server error, a timeout, a lost connection: worth another try."""
    REFUSED = "Refused"
    """The replica understood the request and refuses it; it would do so again."""
    FINAL = "Final"
    """The replica refuses every call alike, and no waiting cures it: its account has no credit, its model is not there.
    """
    FOREIGN = "Foreign"
    """The address belongs to another session now."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A call without a usable answer."""

    fault: Fault
    message: str
    status: int | None = None
    body: bytes = b""
    retry_after: float = 0.0
    answer: bytes = b""
    """The whole of an answer that does not count: it is paid for all the same."""

    @property
    def full_message(self) -> str:
        """The message with the server's own reason, where its answer states one."""
        reason = find_reason(self.body)
        return f"{self.message}: {reason}" if reason else self.message

    @property
    def overload(self) -> bool:
        """Return whether the replica says that it gets too many calls. (Servers send 503 for other trouble as
        well.)
        """
        return self.status == 429


Outcome = bytes | Failure


class Client(Protocol):
    """The connections to one replica."""

    @property
    def closed(self) -> bool: ...

    async def call(self, body: bytes) -> Outcome:
        """POST `body`; the answer's bytes, or what went wrong."""

    async def close(self) -> None: ...


TIMED_OUT = Failure(Fault.TRANSIENT, "timed out")


def too_long(status: int) -> Failure:
    return Failure(Fault.REFUSED, f"the answer has more than {MAX_ANSWER_BYTES} bytes", status)


def unreachable(reason: object) -> Failure:
    return Failure(Fault.UNREACHABLE, f"cannot connect: {reason}")


def connection_failure(reason: object) -> Failure:
    return Failure(Fault.TRANSIENT, f"connection lost: {reason}")


def read_failure(status: int, headers: Mapping[str, str], kept: bytes) -> Failure:
    """Turn an answer with another status than 2xx into a failure; `kept` is the beginning of its body."""
    # The date form of Retry-After is relative to this machine's clock: where the two differ, the pause is
    # wrong by that.
    if is_transient(status):
        pause = retry_after(headers.get("Retry-After"), datetime.now(UTC))
        if is_incurable(status, kept, retry_after=pause > 0):
            return Failure(Fault.FINAL, f"status {status}", status, kept)
        return Failure(Fault.TRANSIENT, f"status {status}", status, kept, pause)
    message = f"status {status}"
    if 300 <= status < 400:
        message += f": redirects are not followed, to {headers.get('Location', 'nowhere')[:200]}"
    # A session that stops itself answers 402 as well, with a type of its own (service_stops).
    if status == 402 and STOPPED.encode() not in kept:
        return Failure(Fault.FINAL, message, status, kept)
    return Failure(Fault.REFUSED, message, status, kept)
