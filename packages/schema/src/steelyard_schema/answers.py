"""Answers of the API besides entities."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from steelyard_schema.base import SCHEMA_VERSION, DocumentationBase, EntityIdentifier, SchemaModel
from steelyard_schema.data import Artifact
from steelyard_schema.inference_session import InferenceSession


class Status(SchemaModel):
    """Status of an entity after a command."""

    status: str
    """The status."""
    reason: str | None = None
    """Reason of the status in one word."""
    message: str | None = None
    """Reason of the status in a sentence."""


class Documentation(DocumentationBase):
    """Documentation of an entity, with the entity that it belongs to."""

    schemaVersion: Literal["0.1"] = SCHEMA_VERSION
    """Version of the schema."""
    entity: str
    """Id of the entity."""


class StorageSignedURL(SchemaModel):
    """URL that allows one method on one object for a limited time."""

    url: str
    """Absolute URL. It carries its own signature, so no token is sent with it."""
    method: str
    """PUT or GET."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers that must be sent."""


class ArtifactURL(SchemaModel):
    """A file and its signed URL."""

    artifact: Artifact
    """The file."""
    signedURL: StorageSignedURL
    """URL from which the file can be fetched."""


class NotIncluded(SchemaModel):
    """A folder of evidence that this caller cannot get."""

    path: str
    """Path of the folder."""
    reason: str
    """Reason why its files are not included."""


class EvidenceLinks(SchemaModel):
    """Links to everything that a report or an audit was made from, so that it can be checked elsewhere."""

    files: list[ArtifactURL]
    """All files, with their paths in the reader's folder."""
    notIncluded: list[NotIncluded]
    """Folders that are left out, with the reasons."""


class CroissantTaken(SchemaModel):
    """Parts of a Croissant file that describe the dataset from now on, and those that do not."""

    taken: list[str]
    """Names of the parts that are kept, such as license."""
    leftOut: list[str]
    """Parts that are not kept, each with the reason."""


class InferenceSessionAndToken(SchemaModel):
    """A new session, and a token that counts for it alone."""

    inferencesession: InferenceSession
    """The session."""
    token: str
    """Token of the session."""


class WorkflowProgress(SchemaModel):
    """Progress of a workflow, or what it waits for."""

    status: str
    """The entity's status."""
    reason: str | None = None
    """Reason of the status in one word."""
    message: str | None = None
    """Progress in one line, or what the workflow waits for and how far that is."""
    unit: str | None = None
    """Unit of `done` and `total`, such as rows."""
    done: int | None = None
    """Number of units that are done."""
    total: int | None = None
    """Number of all units, if it is known."""


class PipelineRunStatus(SchemaModel):
    """Status of a run of a pipeline, which follows from its workflows'."""

    status: str
    """Created, Admitted, Complete, Failed or Terminated; Deleted for a run that was deleted."""
    reason: str | None = None
    """Reason of the status in one word."""
    message: str | None = None
    """Reason of the status in a sentence."""
    nodes: dict[str, Status] = Field(default_factory=dict)
    """Statuses of the workflows, by the names of the nodes."""


class QuarantinedMessage(SchemaModel):
    """A message that waits with its entity in quarantine; the first is the one that failed."""

    id: str
    """Id of the command."""
    command: str
    """Name of the command, such as UpdateEntityStatus."""
    source: str
    """Sender of the command: api, orchestrator, informer or reaper."""
    time: str
    """Time at which the command was sent."""
    partition: int
    """Partition of the log in which the message stands."""
    offset: int
    """Offset of the message in its partition."""


class QuarantinedEntity(SchemaModel):
    """An entity in quarantine, since a consumer could not take a message about it."""

    id: str
    """The entity's id."""
    consumer: str
    """Consumer that could not take the message: `commands` applies commands; others, such as view-sink, follow states.
    """
    reason: str
    """Description of the failure."""
    since: datetime
    """Time at which the failed message was written."""
    waiting: int = 0
    """Messages that are held back, the failed one among them; none for a consumer that follows states."""
    messages: list[QuarantinedMessage] = Field(default_factory=list)
    """The messages that are held back, in the answer about a single entity."""


class WorkflowLogEntry(SchemaModel):
    """One line of a Pod's log."""

    timestamp: str
    """Time of the line, in RFC 3339."""
    message: str
    """Text of the line."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Pod and container that wrote the line."""


class WorkflowLogsResponse(SchemaModel):
    """Lines of a workflow's Pods."""

    workflow: EntityIdentifier
    """Entity whose workflow wrote the lines."""
    logs: list[WorkflowLogEntry] = Field(default_factory=list)
    """The newest lines, oldest of them first."""
    totalLines: int
    """Number of lines that were available."""
