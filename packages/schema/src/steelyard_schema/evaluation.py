"""Evaluation: every row of a dataset, asked of an inference service, with verified outputs."""

from typing import Annotated, Literal

from pydantic import Field

from steelyard_schema.base import DyffEntity, SchemaModel
from steelyard_schema.bounds import FEW, NUMBER, Count, Id, Line, Natural, Seconds, Word
from steelyard_schema.data import SchemaAdapter
from steelyard_schema.inference_session import InferenceSessionSpec
from steelyard_schema.security import SecurityContext

Replications = Annotated[int, Field(ge=1, le=100_000), NUMBER]
"""Number of replications: the client keeps a name of 32 characters for each."""


class EvaluationClientConfiguration(SchemaModel):
    """Settings of the client that sends the requests, and its treatment of errors."""

    badRequestPolicy: Literal["Abort", "Skip"] = "Abort"
    """Treatment of a row that the service refuses: Abort ends the evaluation, Skip records the row and goes on."""
    transientErrorRetryLimit: Natural = 120
    """Maximum consecutive failures of a replica, and tries of one row, before it counts as failed."""
    transientErrorRetryDelaySeconds: Seconds = 30
    """Longest pause between two tries."""
    duplicateOutputPolicy: Literal["Deduplicate", "Error", "Ignore"] = "Deduplicate"
    """Treatment of a row that occurs twice in the outputs, by verification."""
    missingOutputPolicy: Literal["Error", "Ignore"] = "Error"
    """Treatment of a row that is missing in the outputs, by verification."""
    requestTimeoutSeconds: Seconds = 600
    """Longest time from sending a request to its complete answer."""
    totalTimeoutSeconds: Seconds = 7200
    """Longest time from the first request to the end of the evaluation."""
    batchSize: Count = 1000
    """Number of rows in one part of the output."""
    extraOptions: Annotated[dict[Word, Line], FEW] = Field(default_factory=dict)
    """Options of a particular client. Steelyard's: `waitForServerSeconds` (600), how long all replicas may refuse
    connections before an attempt ends; `sessionEndedSeconds` (60), how long a referenced session may be without
    replicas."""
    inputPipeline: Annotated[list[SchemaAdapter], FEW] | None = None
    """Steps that rewrite a dataset row before the service's own pipeline does."""


class EvaluationFields(SchemaModel):
    """Fields of an Evaluation besides those of every entity."""

    dataset: Id
    """Id of the dataset."""
    replications: Replications = 1
    """Number of times that every row is asked."""
    workersPerReplica: Count | None = None
    """Maximum requests in flight per replica."""
    client: EvaluationClientConfiguration = Field(default_factory=EvaluationClientConfiguration)
    """Settings of the client that sends the requests, and its treatment of errors."""
    inferenceSession: InferenceSessionSpec
    """Session that is started for the evaluation, or a copy of the session that is referred to."""
    inferenceSessionReference: Id | None = None
    """Id of a session that is already running."""
    securityContext: SecurityContext = Field(default_factory=SecurityContext)
    """Privileges of the workflow."""


class Evaluation(EvaluationFields, DyffEntity):
    """Every row of a dataset, asked of an inference service, with verified outputs."""

    kind: Literal["Evaluation"] = "Evaluation"
    """Kind of the entity: Evaluation."""
