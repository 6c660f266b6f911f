"""A task of a challenge: the pipeline that assesses what teams submit, and the rules for submissions."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from steelyard_schema.base import Duration, EntityKind, SchemaModel, Time
from steelyard_schema.bounds import FEW, Count, Id, LabelKey, Natural, Text, Word
from steelyard_schema.challenge_content import ChallengeTaskContent
from steelyard_schema.kubernetes import Quantity

ScoreVisibility = Literal["public", "submitter", "reviewer"]
ViewVisibility = Literal["public", "submitter", "reviewer", "hidden"]
SubmitVisibility = Literal["submitter", "reviewer", "hidden"]
CYCLE = timedelta(days=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ChallengeTaskExecutionEnvironment(SchemaModel):
    """An environment that a task offers to submissions."""

    cpu: Quantity
    """Processors, such as 4."""
    memory: Quantity
    """Memory, such as 16Gi."""
    accelerators: Annotated[dict[LabelKey, Natural], FEW] = Field(default_factory=dict)
    """Numbers of accelerators by their types."""


class ChallengeTaskExecutionEnvironmentChoices(SchemaModel):
    """Environments that are announced to teams; the platform does not compare submissions with them."""

    choices: Annotated[dict[Word, ChallengeTaskExecutionEnvironment], Field(min_length=1, max_length=1000)]
    """Environments by their names."""


class ChallengeTaskSchedule(SchemaModel):
    """Times at which teams may submit, and how often."""

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

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.openingTime and self.closingTime and self.closingTime <= self.openingTime:
            raise ValueError(
                f"closingTime {self.closingTime.isoformat()} should be after openingTime "
                f"{self.openingTime.isoformat()}"
            )
        if not self.submissionCycleDuration:
            raise ValueError("submissionCycleDuration should be more than nothing")
        return self


class ChallengeTaskVisibility(SchemaModel):
    """The roles that a caller needs to see a task, its scores, and to submit."""

    scores: Annotated[dict[Word, Annotated[dict[Word, ScoreVisibility], FEW]], FEW] = Field(
        default_factory=dict
    )
    """Role that sees a score, by the method's id and the score's name; `*` stands for any. Other scores are seen by
    submitters. Of several that fit, the one that shows most counts."""
    view: ViewVisibility = "public"
    """Role that sees the task."""
    submit: SubmitVisibility = "submitter"
    """Role that may submit."""


class ChallengeTaskRules(SchemaModel):
    """Rules for submissions to a task."""

    executionEnvironment: ChallengeTaskExecutionEnvironmentChoices
    """Environments that are announced to teams; the platform does not compare submissions with them."""
    schedule: ChallengeTaskSchedule = Field(default_factory=ChallengeTaskSchedule)
    """Times at which teams may submit, and how often."""
    visibility: ChallengeTaskVisibility = Field(default_factory=ChallengeTaskVisibility)
    """Roles that a caller needs."""


class SubmissionStructure(SchemaModel):
    """Way in which a submission becomes an argument of the pipeline."""

    submissionKind: EntityKind = "InferenceService"
    """Kind of the entities that are submitted."""
    pipelineKeyword: Word = "submission"
    """Parameter of the pipeline that takes the id of the submitted entity."""


class ChallengeTaskFields(SchemaModel):
    """Fields of a task that its create request has."""

    challenge: Id
    """Id of the challenge."""
    name: Annotated[str, Field(min_length=1, max_length=140)]
    """Name that no other task of the challenge has; it occurs in addresses."""
    assessment: Id
    """Id of the pipeline that assesses submissions."""
    submissionStructure: SubmissionStructure = Field(default_factory=SubmissionStructure)
    """Way in which a submission becomes an argument of the pipeline."""
    rules: ChallengeTaskRules
    """Rules for submissions."""
    content: ChallengeTaskContent = Field(default_factory=ChallengeTaskContent)
    """Content of the task's page."""


class ChallengeTask(ChallengeTaskFields):
    """A task of a challenge."""

    id: Id
    """Identifier of the task: its key in the challenge."""
    account: Word
    """Account that owns the task."""
    status: Word
    """Last milestone that the task reached."""
    reason: Text | None = None
    """Reason of the status in one word."""
    message: Text | None = None
    """Reason of the status in a sentence."""
    creationTime: Time
    """Time at which the task was created."""
    lastTransitionTime: Time | None = None
    """Time at which the status last changed."""
