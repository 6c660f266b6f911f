"""The commands that change a challenge: its content, rules, tasks and teams."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard_schema.base import Duration, SchemaModel, Time
from steelyard_schema.bounds import FEW, Count, Id, Summary, Text, Title, Word
from steelyard_schema.challenge import SubmissionVisibility, TeamVisibility
from steelyard_schema.challenge_content import ChallengeNewsItem
from steelyard_schema.challenge_task import (
    CYCLE,
    EPOCH,
    ChallengeTask,
    ChallengeTaskExecutionEnvironment,
    ScoreVisibility,
    SubmitVisibility,
    ViewVisibility,
)
from steelyard_schema.commands.base import CommandData, EntityCommand, Patch
from steelyard_schema.team import Team


class ChallengeContentPagePatch(Patch):
    """Changes of a page."""

    title: Title = ""
    """New title."""
    summary: Summary = ""
    """New summary."""
    body: Text = ""
    """New page in Markdown."""


class ChallengeContentPatch(SchemaModel):
    """Changes of the content of a challenge or a task."""

    page: ChallengeContentPagePatch = Field(default_factory=ChallengeContentPagePatch)
    """Changes of the page."""
    news: Annotated[dict[Word, ChallengeNewsItem], FEW] | None = None
    """News by their keys; absent if they stay as they are."""


class TaskContentEdit(SchemaModel):
    """Changes of the page and rules of a task."""

    content: ChallengeContentPatch | None = None
    """Changes of the content."""


class ChallengeContentAttributes(TaskContentEdit):
    """Changes of the pages of a challenge and its tasks."""

    tasks: Annotated[dict[Word, TaskContentEdit], FEW] | None = None
    """Changes of tasks, by their ids."""


class ChallengeVisibilityPatch(Patch):
    """Changes of the roles that a caller needs; a null removes an entry."""

    teams: Annotated[dict[Word, TeamVisibility | None], FEW] = Field(default_factory=dict)
    """Role that sees a team, by the team's id."""
    submissions: Annotated[dict[Word, SubmissionVisibility | None], FEW] = Field(default_factory=dict)
    """Visibility of a submission, by its id."""


class ChallengeRulesPatch(SchemaModel):
    """Changes of the rules of a challenge."""

    visibility: ChallengeVisibilityPatch = Field(default_factory=ChallengeVisibilityPatch)
    """Changes of the roles that a caller needs."""


class ChallengeRulesAttributes(SchemaModel):
    """Changes of a challenge's rules."""

    rules: ChallengeRulesPatch
    """Changes of the rules."""


class ExecutionEnvironmentPatch(Patch):
    """Changes of the environments of a task; a null removes one."""

    choices: Annotated[dict[Word, ChallengeTaskExecutionEnvironment | None], FEW] = Field(
        default_factory=dict
    )
    """Environments by their names."""


class SchedulePatch(Patch):
    """Changes of the schedule of a task; a null removes a time."""

    openingTime: Time | None = None
    """Time from which teams may submit."""
    closingTime: Time | None = None
    """Time until which teams may submit."""
    submissionCycleDuration: Duration = CYCLE
    """Length of a cycle."""
    submissionCycleEpoch: Time = EPOCH
    """Beginning of a cycle; the others follow from it."""
    submissionLimitPerCycle: Count = 1
    """Maximum submissions of a team in a cycle."""


class TaskVisibilityPatch(Patch):
    """Changes of the roles that a caller needs; a null removes an entry."""

    scores: Annotated[dict[Word, Annotated[dict[Word, ScoreVisibility | None], FEW] | None], FEW] = Field(
        default_factory=dict
    )
    """Role that sees a score, by the method's id and the score's name."""
    view: ViewVisibility = "public"
    """Role that sees the task."""
    submit: SubmitVisibility = "submitter"
    """Role that may submit."""


class ChallengeTaskRulesPatch(SchemaModel):
    """Changes of the rules of a task."""

    executionEnvironment: ExecutionEnvironmentPatch = Field(default_factory=ExecutionEnvironmentPatch)
    """Changes of the environments."""
    schedule: SchedulePatch = Field(default_factory=SchedulePatch)
    """Changes of the schedule."""
    visibility: TaskVisibilityPatch = Field(default_factory=TaskVisibilityPatch)
    """Changes of the roles that a caller needs."""


class TaskRulesEdit(SchemaModel):
    """Changes of a task's rules."""

    rules: ChallengeTaskRulesPatch = Field(default_factory=ChallengeTaskRulesPatch)
    """Changes of the rules."""
    assessment: Id | None = None
    """Id of another pipeline that assesses submissions; absent if it stays the same."""


class TaskRulesAttributes(SchemaModel):
    """Changes of the rules of tasks."""

    tasks: Annotated[dict[Word, TaskRulesEdit], FEW]
    """Changes of tasks, by their ids."""


class TaskAttributes(SchemaModel):
    """A new task."""

    task: ChallengeTask
    """The task."""


class TeamAttributes(SchemaModel):
    """A new team."""

    team: Team
    """The team."""


class ChallengeContentData(CommandData):
    """The challenge, and changes of its content."""

    attributes: ChallengeContentAttributes
    """Merge patch of the content."""


class ChallengeRulesData(CommandData):
    """The challenge, and changes of its rules."""

    attributes: ChallengeRulesAttributes
    """Merge patch of the rules."""


class ChallengeTaskRulesData(CommandData):
    """The challenge, and changes of the rules of its tasks."""

    attributes: TaskRulesAttributes
    """Merge patches of the rules."""


class ChallengeTaskData(CommandData):
    """The challenge, and a new task."""

    attributes: TaskAttributes
    """The task."""


class ChallengeTeamData(CommandData):
    """The challenge, and a new team."""

    attributes: TeamAttributes
    """The team."""


class CreateChallengeTask(EntityCommand):
    """Adds a task to a challenge."""

    command: Literal["CreateChallengeTask"] = "CreateChallengeTask"
    data: ChallengeTaskData


class CreateChallengeTeam(EntityCommand):
    """Adds a team to a challenge."""

    command: Literal["CreateChallengeTeam"] = "CreateChallengeTeam"
    data: ChallengeTeamData


class EditChallengeContent(EntityCommand):
    """Changes the pages of a challenge and its tasks."""

    command: Literal["EditChallengeContent"] = "EditChallengeContent"
    data: ChallengeContentData


class EditChallengeRules(EntityCommand):
    """Changes the rules of a challenge."""

    command: Literal["EditChallengeRules"] = "EditChallengeRules"
    data: ChallengeRulesData


class EditChallengeTaskRules(EntityCommand):
    """Changes the rules of a challenge's tasks."""

    command: Literal["EditChallengeTaskRules"] = "EditChallengeTaskRules"
    data: ChallengeTaskRulesData
