"""Revision: an entity as one command left it. History: the revisions of an entity."""

from typing import Annotated, Literal

from steelyard_schema.base import DyffEntity, SchemaModel, Time
from steelyard_schema.bounds import MANY, Id, Text
from steelyard_schema.revisable import Revisable


class ForeignRevision(SchemaModel):
    """A revision, as a history names it."""

    previousRevision: Id | None = None
    """Id of the revision before."""
    creationTime: Time
    """Time at which the revision came to be."""
    id: Id
    """Id of the revision."""


class RevisionData(SchemaModel):
    """Content of a revision. The field that belongs to `format` is set."""

    format: Literal["Snapshot", "JsonMergePatch"]
    """Snapshot for the whole entity, JsonMergePatch for the fields that were different before."""
    snapshot: Revisable | None = None
    """The whole entity, if the format is Snapshot."""
    jsonMergePatch: Text | None = None
    """JSON merge patch that turns this revision into the one before, if the format is JsonMergePatch."""


class Revision(DyffEntity):
    """An entity as one command left it."""

    previousRevision: Id | None = None
    """Id of the revision before."""
    revisionOf: Id
    """Id of the entity."""
    data: RevisionData
    """Content of the revision."""
    kind: Literal["Revision"] = "Revision"
    """Kind of the entity: Revision."""


class History(DyffEntity):
    """Revisions of an entity."""

    historyOf: Id
    """Id of the entity."""
    latest: ForeignRevision
    """The newest revision."""
    revisions: Annotated[list[ForeignRevision], MANY]
    """All revisions."""
    kind: Literal["History"] = "History"
    """Kind of the entity: History."""
