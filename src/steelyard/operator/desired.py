"""What a decision is: the children that should exist, those that should not, the status, the next look."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Desired:
    """The answer of every `reconcile`. The edge creates, then deletes, then writes the status, in this order.

    `absent` names children (kind, name) that are believed gone: the edge asks the API itself before it creates
    anything, because the cache may lag and two live Jobs of one step must never be.
    """

    status: Json
    create: tuple[Json, ...] = ()
    delete: tuple[Json, ...] = ()
    absent: tuple[tuple[str, str], ...] = ()
    next_look: datetime | None = None
    delete_resource: bool = field(default=False)
