"""Evaluation: every row of a dataset, asked of an inference service, with verified outputs."""

from typing import Literal

from pydantic import Field

from steelyard.schema.base import DyffEntity, SchemaModel
from steelyard.schema.data import SchemaAdapter
from steelyard.schema.inference_session import InferenceSessionSpec
from steelyard.schema.security import SecurityContext


class EvaluationClientConfiguration(SchemaModel):
    """How the client asks, and what it does about faults."""

    badRequestPolicy: Literal["Abort", "Skip"] = "Abort"
    """What a refused row does: Abort stops, Skip records the row and goes on."""
    transientErrorRetryLimit: int = Field(default=120, ge=0)
    """Consecutive failures of a replica, and tries of one row, before it counts as failed."""
    transientErrorRetryDelaySeconds: int = Field(default=30, ge=1)
    """Longest pause between two tries."""
    duplicateOutputPolicy: Literal["Deduplicate", "Error", "Ignore"] = "Deduplicate"
    """What verification does about a row that is there twice."""
    missingOutputPolicy: Literal["Error", "Ignore"] = "Error"
    """What verification does about a row that is not there."""
    requestTimeoutSeconds: int = Field(default=30, ge=1)
    """Longest time from sending a request to its whole answer."""
    totalTimeoutSeconds: int = Field(default=7200, ge=1)
    """Longest time from the first request to the end."""
    batchSize: int = Field(default=1000, ge=1)
    """Rows of one part of the output."""
    extraOptions: dict[str, str] = Field(default_factory=dict)
    """Options of a particular client."""
    inputPipeline: list[SchemaAdapter] | None = None
    """Rewrites a dataset row before the service's own pipeline does."""


class EvaluationFields(SchemaModel):
    """What an Evaluation is besides an entity."""

    dataset: str
    """Id of the dataset."""
    replications: int = Field(default=1, ge=1)
    """How often each row is asked."""
    workersPerReplica: int | None = Field(default=None, ge=1)
    """Requests in flight per replica."""
    client: EvaluationClientConfiguration = Field(default_factory=EvaluationClientConfiguration)
    """How the client asks, and what it does about faults."""
    inferenceSession: InferenceSessionSpec
    """The session that is started for the evaluation, or a copy of the one referred to."""
    inferenceSessionReference: str | None = None
    """Id of a session that runs already."""
    securityContext: SecurityContext = Field(default_factory=SecurityContext)
    """What the workflow is trusted with."""


class Evaluation(EvaluationFields, DyffEntity):
    """Every row of a dataset, asked of an inference service, with verified outputs."""

    kind: Literal["Evaluation"] = "Evaluation"
    """Always Evaluation."""
