"""The command that changes a team."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard_schema.bounds import FEW, Title, Word
from steelyard_schema.commands.base import CommandData, EntityCommand, Patch
from steelyard_schema.team import TeamAffiliation, TeamMember


class TeamPatch(Patch):
    """Changes of a team; a null removes a member or an affiliation."""

    name: Title = ""
    """New name."""
    members: Annotated[dict[Word, TeamMember | None], FEW] = Field(default_factory=dict)
    """Members by their keys."""
    affiliations: Annotated[dict[Word, TeamAffiliation | None], FEW] = Field(default_factory=dict)
    """Affiliations by their keys."""


class TeamData(CommandData):
    """The team, and its changes."""

    attributes: TeamPatch
    """Merge patch of the team."""


class EditTeam(EntityCommand):
    """Changes a team."""

    command: Literal["EditTeam"] = "EditTeam"
    data: TeamData
