"""Requests about challenges, their tasks, teams and submissions."""

from typing import Annotated

from pydantic import Field

from steelyard_schema.bounds import FEW, Id, Word
from steelyard_schema.challenge import ChallengeRules
from steelyard_schema.challenge_content import ChallengeContent
from steelyard_schema.challenge_task import ChallengeTaskFields
from steelyard_schema.commands.challenges import (
    ChallengeContentPatch,
    ChallengeRulesPatch,
    ChallengeTaskRulesPatch,
)
from steelyard_schema.commands.teams import TeamPatch
from steelyard_schema.requests.base import CreateRequest, EntityId, Request
from steelyard_schema.security import SecurityContext
from steelyard_schema.submission import SubmissionFields
from steelyard_schema.team import TeamFields


class ChallengeCreateRequest(CreateRequest):
    """Creates a challenge, whose tasks and teams are added next."""

    content: ChallengeContent = Field(default_factory=ChallengeContent)
    """Content of the challenge's page."""
    rules: ChallengeRules = Field(default_factory=ChallengeRules)
    """Rules of the challenge."""


class ChallengeTaskCreateRequest(ChallengeTaskFields, CreateRequest):
    """Creates a task of a challenge."""

    name: Annotated[str, Field(pattern="^[a-z0-9-]+$", min_length=1, max_length=140)]
    """Name that no other task of the challenge has; it occurs in addresses."""
    assessment: EntityId
    """Id of the pipeline that assesses submissions."""


class ChallengeTeamCreateRequest(TeamFields, CreateRequest):
    """Creates a team, which takes part once it is approved."""


class ChallengeContentEditRequest(Request):
    """Merge patch of the content of a challenge or a task."""

    content: ChallengeContentPatch | None = None
    """Changes of the content."""


class ChallengeRulesEditRequest(Request):
    """Merge patch of the rules of a challenge."""

    rules: ChallengeRulesPatch
    """Changes of the rules."""


class ChallengeTaskRulesEditRequest(Request):
    """Merge patch of the rules of a task."""

    rules: ChallengeTaskRulesPatch = Field(default_factory=ChallengeTaskRulesPatch)
    """Changes of the rules."""
    assessment: Id | None = None
    """Id of another pipeline that assesses submissions from now on; without one, they are refused."""


class TeamEditRequest(TeamPatch, Request):
    """Merge patch of a team: a null removes a member or an affiliation."""


class SubmissionCreateRequest(SubmissionFields, CreateRequest):
    """Submits an entity to a task."""

    team: EntityId
    """Id of the team."""


class ResubmissionRequest(CreateRequest):
    """Repeats an earlier submission."""

    steps: Annotated[list[Word], FEW] | None = None
    """Nodes of the pipeline that run again, and with them those that need them; of the others the workflows are kept,
    which must have succeeded. Without it, all run again."""
    securityContext: SecurityContext | None = None
    """Privileges of the workflows; only an administrator may set them."""
