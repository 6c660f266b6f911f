"""Submission: an entity that a team hands in for a task of a challenge, and the run that assesses it."""

from typing import Literal

from pydantic import Field

from steelyard_schema.base import DyffEntity, EntityIdentifier, SchemaModel
from steelyard_schema.bounds import Id
from steelyard_schema.security import SecurityContext


def _restrict() -> SecurityContext:
    return SecurityContext(trusted=False)


class SubmissionFields(SchemaModel):
    """Fields of a Submission that its create request has."""

    team: Id
    """Id of the team."""
    submission: EntityIdentifier
    """The entity that is handed in."""
    securityContext: SecurityContext = Field(default_factory=_restrict)
    """Privileges of the workflows that assess it."""


class Submission(SubmissionFields, DyffEntity):
    """An entity that a team hands in for a task of a challenge, and the run that assesses it."""

    challenge: Id
    """Id of the challenge."""
    task: Id
    """Key of the task within the challenge."""
    pipelineRun: Id
    """Id of the run that assesses the entity."""
    resubmissionOf: Id | None = None
    """Id of the submission that this one repeats."""
    kind: Literal["Submission"] = "Submission"
    """Kind of the entity: Submission."""
