"""The view's protocol: entities as JSON text, found by the documented filters.

The sinks write it, the API reads it. A view is a consequence of `workflows.state` and can always be built again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from steelyard.engines.origin import Origin
from steelyard_common.errors import ContentError, EngineError
from steelyard_schema.account import Scope

STATE = "workflows.state"
"""The topic that a view is written from; what a view's origin calls it."""
EVERYTHING = Scope(accounts=frozenset({"*"}), entities=frozenset())


class ViewError(EngineError):
    """The view failed."""


class BadChange(ViewError, ContentError):
    """A change has no place in a view; the view itself is well."""


class BadQuery(ViewError, ContentError, ValueError):
    """A filter, an order or a cursor is not one of the kind's; `field` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


@dataclass(frozen=True, order=True)
class Position:
    """(epoch, offset) of the last command that an entity has seen; a later one wins."""

    epoch: int
    offset: int


@dataclass(frozen=True)
class StoredEntity:
    """An entity as it is kept: its JSON text goes out as it is."""

    kind: str
    id: str
    json: bytes
    position: Position


@dataclass(frozen=True)
class Change:
    """The newest state of an entity; without `json` it is forgotten."""

    id: str
    json: bytes | None
    position: Position


@dataclass(frozen=True)
class Query:
    """A query of `GET /{resource}`. Filters are conjunctive, the values of one filter disjunctive.

    `any_of` is a list of conjunctions; one has to hold (the inputs of analyses); empty: no such condition. In both,
    `labels.KEY` names a label. `after` is the cursor: the value of `order_by`, as it stands in the JSON, and the id
    of the last entity seen; None for an entity without the field. Such entities come last in either order; ties are
    in the order of ids, from the highest when descending. Without `order_by`, entities come in order of creation.
    """

    kind: str
    filters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    any_of: Sequence[Mapping[str, Sequence[str]]] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    scope: Scope = EVERYTHING
    order_by: str | None = None
    order: Literal["ascending", "descending"] = "ascending"
    limit: int | None = None
    after: tuple[str | None, str] | None = None


class View(Protocol):
    """Store of entities for queries.

    Kinds and their filters are in `views/fields.py`; every method may raise ViewError.
    """

    async def get(self, kind: str, id: str) -> StoredEntity | None: ...

    async def find(self, id: str) -> StoredEntity | None:
        """An entity of whatever kind."""
        ...

    async def kinds(self, ids: Collection[str]) -> Mapping[str, str]:
        """Return the kinds of those of the entities that there are, by id, from one read."""
        ...

    async def query(self, query: Query) -> Sequence[StoredEntity]:
        """Raises BadQuery. Without a limit, all of them."""
        ...

    async def positions(self, epoch: int) -> Mapping[int, int]:
        """Return the sink's next offset in each partition of `workflows.state`; empty for a log of another epoch."""
        ...

    async def apply(self, changes: Sequence[Change], epoch: int, positions: Mapping[int, int]) -> None:
        """Changes and positions in one transaction; a change older than the stored one is left out.

        The first change of a later epoch begins a resync: an entity's first record in a resync replaces the stored
        one, whatever its position (the log is the truth, and may have been restored to an earlier state), and marks
        it. Raises ViewError for an epoch earlier than the view's.
        """
        ...

    async def restart(self, epoch: int) -> None:
        """Begin a resync within an epoch: forget the positions, and so read everything again.

        For a view that was away for longer than tombstones are kept.
        """
        ...

    async def sweep(self, epoch: int, before: Mapping[int, int]) -> int:
        """Remove entities that a resync did not name. How many; none where it was done already, which costs nothing.

        A sink calls it whenever it has caught up with the ends that it saw at its start, so that a resync that was
        cut short ends all the same. Raises ViewError where the positions have not come to `before`, those ends.
        """
        ...

    async def origin(self) -> Origin | None:
        """The log that the view was written from; None for a new view."""
        ...

    async def set_origin(self, log: str, epoch: int) -> None:
        """Record the log that the view belongs to from now on. Another log, or a later epoch, begins a resync."""
        ...

    def version(self) -> int:
        """A number that changes with every write of any process; take it before reading, and give it to `changed`."""
        ...

    async def wait_for_change(self, since: int, timeout: float) -> int:
        """The version, once it is another than `since` or `timeout` seconds have passed."""
        ...

    async def facts(self) -> Sequence[str]:
        """Return what a person who checks the engine wants to know. Raises ViewError where a right is missing."""
        ...

    async def close(self) -> None: ...
