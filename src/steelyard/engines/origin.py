"""An outlet's memory of the log that it was written from; `services/identity.py` compares it with the log.

An outlet is whatever holds a position of the log: the view, the backup, the accounts database with its claims and its
outbox. All of them import this module, and none of them the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from steelyard_common.errors import Refused


class OriginUnreadable(Refused):
    """Something else lies where an outlet keeps its origin; the message names the place."""


@dataclass(frozen=True)
class Origin:
    """A log's id and epoch, and how far it was read: the next offset by topic and partition.

    `log` is empty in an outlet that a version without ids has written.
    """

    log: str
    epoch: int
    positions: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


class Outlet(Protocol):
    """An outlet, as far as its origin is concerned."""

    async def origin(self) -> Origin | None:
        """The origin; None where nothing was ever written."""
        ...

    async def set_origin(self, log: str, epoch: int) -> None:
        """Record that the outlet belongs to this log. Positions of another log or epoch are given up; contents stay.

        Called at the first start on a log, and once an administrator has accepted one.
        """
        ...
