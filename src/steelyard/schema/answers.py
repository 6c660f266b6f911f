"""What the API answers besides entities."""

from datetime import datetime

from pydantic import Field

from steelyard.schema.base import EntityIdentifier, SchemaModel
from steelyard.schema.data import Artifact
from steelyard.schema.inference_session import InferenceSession


class Status(SchemaModel):
    """The status that a command has brought about."""

    status: str
    """The status."""
    reason: str | None = None
    """Why, in one word."""
    message: str | None = None
    """The same in a sentence."""


class StorageSignedURL(SchemaModel):
    """An address that is good for one object, one method and a while."""

    url: str
    """Absolute address; it carries its own proof, so no token goes with it."""
    method: str
    """PUT or GET."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers that have to be sent."""


class ArtifactURL(SchemaModel):
    """A file, and where it is got."""

    artifact: Artifact
    """The file."""
    signedURL: StorageSignedURL
    """Where it is got."""


class NotIncluded(SchemaModel):
    """Files that are no part of the evidence that this caller gets."""

    path: str
    """The folder that they would have been in."""
    reason: str
    """Why they are not there."""


class EvidenceLinks(SchemaModel):
    """Everything that a report or an audit was made from, to be checked elsewhere."""

    files: list[ArtifactURL]
    """Each file, with the path that it has in the reader's folder."""
    notIncluded: list[NotIncluded]
    """Each folder that is left out, with the reason."""


class InferenceSessionAndToken(SchemaModel):
    """A new session, and the token that is good for it alone."""

    inferencesession: InferenceSession
    """The session."""
    token: str
    """Its token."""


class WorkflowProgress(SchemaModel):
    """How far a workflow is, and what it waits for."""

    status: str
    """The entity's status."""
    reason: str | None = None
    """Why, in one word."""
    message: str | None = None
    """In a line: how far it is, or what it waits for and how far that is."""
    unit: str | None = None
    """What is counted, such as rows."""
    done: int | None = None
    """How many are done."""
    total: int | None = None
    """Of how many, where that is known."""


class QuarantinedMessage(SchemaModel):
    """A message that waits with its entity; the first one is the one that failed."""

    id: str
    """Id of the command."""
    command: str
    """What it asks for, such as UpdateEntityStatus."""
    source: str
    """Who gave it: api, orchestrator, informer or reaper."""
    time: str
    """When it was given."""
    partition: int
    """Where it stood in the log."""
    offset: int
    """Where it stood in the log."""


class QuarantinedEntity(SchemaModel):
    """An entity that a consumer has put in quarantine, since it could not take a message about it."""

    id: str
    """The entity's id."""
    consumer: str
    """Who has put it there: `commands` judges what is asked for; others follow the states, such as view-sink."""
    reason: str
    """What went wrong."""
    since: datetime
    """When the message was written that could not be taken."""
    waiting: int = 0
    """Messages that are held back, the failed one among them; none of a consumer that follows states."""
    messages: list[QuarantinedMessage] = Field(default_factory=list)
    """Those messages, where one entity is asked for."""


class WorkflowLogEntry(SchemaModel):
    """A line that a Pod has written."""

    timestamp: str
    """When, in RFC 3339."""
    message: str
    """What."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Which Pod and container."""


class WorkflowLogsResponse(SchemaModel):
    """Lines of a workflow's Pods."""

    workflow: EntityIdentifier
    """Whose lines."""
    logs: list[WorkflowLogEntry] = Field(default_factory=list)
    """The newest ones, oldest first."""
    totalLines: int
    """How many there are here."""
