"""Evaluation: every row of a dataset, asked of an inference service, with verified outputs."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard.schema.base import DyffEntity, SchemaModel
from steelyard.schema.bounds import FEW, NUMBER, Count, Id, Line, Natural, Seconds, Word
from steelyard.schema.data import SchemaAdapter
from steelyard.schema.inference_session import InferenceSessionSpec
from steelyard.schema.security import SecurityContext

Replications = Annotated[int, Field(ge=1, le=100_000), NUMBER]
"""The client keeps a name of 32 characters for each."""


class EvaluationClientConfiguration(SchemaModel):
    """How the client asks, and what it does about faults."""

    badRequestPolicy: Literal["Abort", "Skip"] = "Abort"
    """What a refused row does: Abort stops, Skip records the row and goes on."""
    transientErrorRetryLimit: Natural = 120
    """Consecutive failures of a replica, and tries of one row, before it counts as failed."""
    transientErrorRetryDelaySeconds: Seconds = 30
    """Longest pause between two tries."""
    duplicateOutputPolicy: Literal["Deduplicate", "Error", "Ignore"] = "Deduplicate"
    """What verification does about a row that is there twice."""
    missingOutputPolicy: Literal["Error", "Ignore"] = "Error"
    """What verification does about a row that is not there."""
    requestTimeoutSeconds: Seconds = 600
    """Longest time from sending a request to its whole answer."""
    totalTimeoutSeconds: Seconds = 7200
    """Longest time from the first request to the end."""
    batchSize: Count = 1000
    """Rows of one part of the output."""
    extraOptions: Annotated[dict[Word, Line], FEW] = Field(default_factory=dict)
    """Options of a particular client. Steelyard's: `waitForServerSeconds` (600), how long all replicas may refuse
    connections before an attempt ends; `sessionEndedSeconds` (60), how long a referenced session may have none."""
    inputPipeline: Annotated[list[SchemaAdapter], FEW] | None = None
    """Rewrites a dataset row before the service's own pipeline does."""


class EvaluationFields(SchemaModel):
    """What an Evaluation is besides an entity."""

    dataset: Id
    """Id of the dataset."""
    replications: Replications = 1
    """How often each row is asked."""
    workersPerReplica: Count | None = None
    """Requests in flight per replica."""
    client: EvaluationClientConfiguration = Field(default_factory=EvaluationClientConfiguration)
    """How the client asks, and what it does about faults."""
    inferenceSession: InferenceSessionSpec
    """The session that is started for the evaluation, or a copy of the one referred to."""
    inferenceSessionReference: Id | None = None
    """Id of a session that runs already."""
    securityContext: SecurityContext = Field(default_factory=SecurityContext)
    """What the workflow is trusted with."""


class Evaluation(EvaluationFields, DyffEntity):
    """Every row of a dataset, asked of an inference service, with verified outputs."""

    kind: Literal["Evaluation"] = "Evaluation"
    """Always Evaluation."""
