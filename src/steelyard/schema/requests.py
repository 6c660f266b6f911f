"""What clients send: one create request per kind, and the edits.

The server resolves the ids in a request to embedded entities; unknown fields are refused by name.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, AwareDatetime, Field, model_validator

from steelyard.schema.account import AccessGrant, Identity
from steelyard.schema.audit import AuditRequirement
from steelyard.schema.base import SCHEMA_VERSION, SchemaModel, to_utc
from steelyard.schema.bounds import FEW, Count, Rubric, Word
from steelyard.schema.commands import DocumentationPatch
from steelyard.schema.data import Artifact, DataView
from steelyard.schema.dataset import DatasetFields
from steelyard.schema.evaluation import EvaluationClientConfiguration, Replications
from steelyard.schema.inference_service import (
    InferenceInterface,
    InferenceServiceBuilder,
    InferenceServiceRunner,
)
from steelyard.schema.labels import Labels
from steelyard.schema.model import Accelerator, ModelFields
from steelyard.schema.module import ModuleFields
from steelyard.schema.mounts import check_mounts
from steelyard.schema.paths import check_artifact_paths, check_md5
from steelyard.schema.resources import LABEL_VALUE_PATTERN

NAME_LENGTH = 255
Name = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH)]
AccountName = Annotated[str, Field(pattern=LABEL_VALUE_PATTERN, max_length=63)]
EntityId = Annotated[str, Field(pattern="^[0-9a-f]{32}$", max_length=32)]
End = Annotated[AwareDatetime, AfterValidator(to_utc)]
"""A time that names its zone."""


class Request(SchemaModel):
    """What every request has. The published client leaves the version out."""

    schemaVersion: Literal["0.1"] = SCHEMA_VERSION
    """Version of the schema."""


class CreateRequest(Request):
    """What every create request has."""

    account: AccountName
    """The account that will own the entity."""


def _checked(artifacts: list[Artifact]) -> list[Artifact]:
    for artifact in artifacts:
        check_md5(artifact.digest.md5, artifact.path)
    check_artifact_paths([artifact.path for artifact in artifacts])
    return artifacts


class DatasetCreateRequest(DatasetFields, CreateRequest):
    """A dataset; its files are uploaded next."""

    name: Name
    """A name for people."""
    artifacts: Annotated[list[Artifact], Field(min_length=1, max_length=10_000), AfterValidator(_checked)]
    """The files, with their MD5 in base64."""


class ModuleCreateRequest(ModuleFields, CreateRequest):
    """A module; its files are uploaded next."""

    name: Name
    """A name for people."""
    artifacts: Annotated[list[Artifact], Field(min_length=1, max_length=10_000), AfterValidator(_checked)]
    """The files, with their MD5 in base64."""


class ModelCreateRequest(ModelFields, CreateRequest):
    """A model; with source Upload, its files are uploaded next."""

    name: Name
    """A name for people."""

    @model_validator(mode="after")
    def _files(self) -> Self:
        files = self.artifact.volume.files if self.artifact.volume else []
        for file in files:
            check_md5(file.digest.md5, file.path)
        check_artifact_paths([file.path for file in files])
        return self


class InferenceServiceCreateRequest(CreateRequest):
    """How a model is served, and how it is asked."""

    name: Name
    """A name for people."""
    builder: InferenceServiceBuilder | None = None
    """How its image is built."""
    runner: InferenceServiceRunner | None = None
    """The program that serves it."""
    interface: InferenceInterface
    """How it is asked and what it answers."""
    outputViews: Annotated[list[DataView], FEW] = Field(default_factory=list)
    """Other forms of its answers."""
    model: EntityId | None = None
    """Id of the model."""

    @model_validator(mode="after")
    def _one_image(self) -> Self:
        if self.runner is None:
            raise ValueError("runner is missing; it should name the program that serves the model")
        if (self.runner.image is None) == (self.runner.imageRef is None):
            raise ValueError("runner: exactly one of image and imageRef should be set")
        check_mounts(self.runner.volumeMounts or [])
        return self


class InferenceSessionCreateRequest(CreateRequest):
    """Replicas of a service that run for a while."""

    expires: End | None = None
    """When it ends by itself."""
    replicas: Count = 1
    """How many replicas."""
    accelerator: Accelerator | None = None
    """Accelerator of each replica."""
    useSpotPods: bool = True
    """Whether cheaper nodes that may be taken away will do."""
    inferenceService: EntityId
    """Id of the service."""


class EvaluationInferenceSessionRequest(SchemaModel):
    """The session that is started for an evaluation."""

    expires: End | None = None
    """When it ends by itself."""
    replicas: Count = 1
    """How many replicas."""
    accelerator: Accelerator | None = None
    """Accelerator of each replica."""
    useSpotPods: bool = True
    """Whether cheaper nodes that may be taken away will do."""
    inferenceService: EntityId
    """Id of the service."""


class EvaluationCreateRequest(CreateRequest):
    """Every row of a dataset, asked of an inference service."""

    dataset: EntityId
    """Id of the dataset."""
    replications: Replications = 1
    """How often each row is asked."""
    workersPerReplica: Count | None = None
    """Requests in flight per replica."""
    client: EvaluationClientConfiguration = Field(default_factory=EvaluationClientConfiguration)
    """How the client asks, and what it does about faults."""
    inferenceSession: EvaluationInferenceSessionRequest | None = None
    """The session to start; or `inferenceSessionReference`."""
    inferenceSessionReference: EntityId | None = None
    """Id of a session that runs; or `inferenceSession`."""

    @model_validator(mode="after")
    def _one_session(self) -> Self:
        if (self.inferenceSession is None) == (self.inferenceSessionReference is None):
            raise ValueError("exactly one of inferenceSession and inferenceSessionReference should be set")
        return self


class ReportCreateRequest(CreateRequest):
    """The outputs of an evaluation, scored by a rubric."""

    rubric: Annotated[Rubric, Field(min_length=1)]
    """Name of the rubric."""
    evaluation: EntityId
    """Id of the evaluation."""
    modules: Annotated[list[EntityId], FEW] = Field(default_factory=list)
    """Ids of modules that hold the rubric's code."""
    datasetView: Word | DataView | None = None
    """How the rubric sees the dataset: a view, or the id of one of the dataset's."""
    evaluationView: Word | DataView | None = None
    """How the rubric sees the outputs: a view, or the id of one of the service's."""


class AuditProcedureCreateRequest(CreateRequest):
    """Which reports an audit needs."""

    name: Name
    """A name for people."""
    requirements: list[AuditRequirement] = Field(min_length=1, max_length=1000)
    """The reports."""


class AuditCreateRequest(CreateRequest):
    """Several reports about one inference service, in one document."""

    auditProcedure: EntityId
    """Id of the procedure."""
    inferenceService: EntityId
    """Id of the service."""
    baseline: EntityId | None = None
    """Id of an earlier audit, with which this one is compared row by row."""
    useCase: Name | None = None
    """Use of the system for which it is audited, in a sentence: it stands on the audit's page."""
    author: Name | None = None
    """Person or team that is responsible for the audit: it stands on the audit's page."""


class AccountCreateRequest(Request):
    """Somebody who will own entities."""

    name: AccountName
    """Its name, which no other account may have."""
    identity: Identity = Field(default_factory=Identity)
    """Who it is elsewhere."""


class AccountPermissionsSetRequest(Request):
    """What keys of the account may be given at most."""

    permissions: Annotated[list[AccessGrant], FEW]
    """Replaces what was there."""


class AccountTokenCreateRequest(Request):
    """A new key."""

    grants: Annotated[list[AccessGrant], FEW]
    """What it may do; at most what the account may."""
    expires: End
    """When it ends."""


class InferenceSessionTokenCreateRequest(Request):
    """A new key of a session."""

    expires: End | None = None
    """When it ends; by default when the session does."""


class LabelsEditRequest(Request):
    """A merge patch of labels: null takes one away."""

    labels: Labels = Field(default_factory=dict)
    """Values by key."""


class DocumentationEditRequest(Request):
    """A merge patch of what a person reads: null takes it away."""

    documentation: DocumentationPatch
    """The patch."""


CREATE_REQUESTS: dict[str, type[CreateRequest]] = {
    "Dataset": DatasetCreateRequest,
    "Module": ModuleCreateRequest,
    "Model": ModelCreateRequest,
    "InferenceService": InferenceServiceCreateRequest,
    "InferenceSession": InferenceSessionCreateRequest,
    "Evaluation": EvaluationCreateRequest,
    "Report": ReportCreateRequest,
    "AuditProcedure": AuditProcedureCreateRequest,
    "Audit": AuditCreateRequest,
}
"""Create requests by kind."""
