"""Challenge: tasks that teams compete in."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard_schema.base import DyffEntity, SchemaModel
from steelyard_schema.bounds import FEW, Word
from steelyard_schema.challenge_content import ChallengeContent
from steelyard_schema.challenge_task import ChallengeTask

TeamVisibility = Literal["public", "submitter", "reviewer"]
SubmissionVisibility = Literal["public", "hidden"]


class ChallengeVisibility(SchemaModel):
    """The roles that a caller needs to see teams and submissions."""

    teams: Annotated[dict[Word, TeamVisibility], FEW] = Field(default_factory=dict)
    """Role that sees a team, by the team's id; `*` stands for any. Other teams are seen by reviewers."""
    submissions: Annotated[dict[Word, SubmissionVisibility], FEW] = Field(default_factory=dict)
    """Visibility of a submission, by its id; `*` stands for any. Other submissions are public."""


class ChallengeRules(SchemaModel):
    """Rules of a challenge."""

    visibility: ChallengeVisibility = Field(default_factory=ChallengeVisibility)
    """Roles that a caller needs to see teams and submissions."""


class Challenge(DyffEntity):
    """Tasks that teams compete in."""

    content: ChallengeContent
    """Content of the challenge's page."""
    rules: ChallengeRules = Field(default_factory=ChallengeRules)
    """Rules of the challenge."""
    tasks: Annotated[dict[Word, ChallengeTask], FEW] = Field(default_factory=dict)
    """Tasks by their ids."""
    kind: Literal["Challenge"] = "Challenge"
    """Kind of the entity: Challenge."""
