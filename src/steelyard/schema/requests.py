"""What clients send: one create request per kind, and the edits.

The server resolves the ids in a request to embedded entities; unknown fields are refused by name.
"""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, AwareDatetime, Field, model_validator

from steelyard.schema.account import AccessGrant, Identity
from steelyard.schema.audit import AuditRequirement
from steelyard.schema.base import LABEL_KEY_PATTERN, SchemaModel
from steelyard.schema.commands import DocumentationPatch
from steelyard.schema.data import Artifact, DataView
from steelyard.schema.dataset import DatasetFields
from steelyard.schema.evaluation import EvaluationClientConfiguration
from steelyard.schema.inference_service import (
    InferenceInterface,
    InferenceServiceBuilder,
    InferenceServiceRunner,
)
from steelyard.schema.model import Accelerator, ModelFields
from steelyard.schema.module import ModuleFields
from steelyard.schema.paths import check_artifact_path, check_md5
from steelyard.schema.resources import LABEL_VALUE_PATTERN

NAME_LENGTH = 255
Name = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH)]
AccountName = Annotated[str, Field(pattern=LABEL_VALUE_PATTERN, max_length=63)]
EntityId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


class CreateRequest(SchemaModel):
    """What every create request has."""

    account: AccountName
    """The account that will own the entity."""


def _checked(artifacts: list[Artifact]) -> list[Artifact]:
    seen: set[str] = set()
    for artifact in artifacts:
        check_artifact_path(artifact.path)
        check_md5(artifact.digest.md5, artifact.path)
        if artifact.path in seen:
            raise ValueError(f"path {artifact.path!r} is there twice")
        seen.add(artifact.path)
    return artifacts


class DatasetCreateRequest(DatasetFields, CreateRequest):
    """A dataset; its files are uploaded next."""

    name: Name
    """A name for people."""
    artifacts: Annotated[list[Artifact], Field(min_length=1), AfterValidator(_checked)]
    """The files, with their MD5 in base64."""


class ModuleCreateRequest(ModuleFields, CreateRequest):
    """A module; its files are uploaded next."""

    name: Name
    """A name for people."""
    artifacts: Annotated[list[Artifact], Field(min_length=1), AfterValidator(_checked)]
    """The files, with their MD5 in base64."""


class ModelCreateRequest(ModelFields, CreateRequest):
    """A model; with source Upload, its files are uploaded next."""

    name: Name
    """A name for people."""

    @model_validator(mode="after")
    def _files(self) -> Self:
        for file in self.artifact.volume.files if self.artifact.volume else []:
            check_artifact_path(file.path)
            check_md5(file.digest.md5, file.path)
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
    outputViews: list[DataView] = Field(default_factory=list)
    """Other forms of its answers."""
    model: EntityId | None = None
    """Id of the model."""

    @model_validator(mode="after")
    def _one_image(self) -> Self:
        if self.runner is None:
            raise ValueError("runner is missing; it should name the program that serves the model")
        if (self.runner.image is None) == (self.runner.imageRef is None):
            raise ValueError("runner: exactly one of image and imageRef should be set")
        return self


class InferenceSessionCreateRequest(CreateRequest):
    """Replicas of a service that run for a while."""

    expires: AwareDatetime | None = None
    """When it ends by itself."""
    replicas: int = Field(default=1, ge=1)
    """How many replicas."""
    accelerator: Accelerator | None = None
    """Accelerator of each replica."""
    useSpotPods: bool = True
    """Whether cheaper nodes that may be taken away will do."""
    inferenceService: EntityId
    """Id of the service."""


class EvaluationInferenceSessionRequest(SchemaModel):
    """The session that is started for an evaluation."""

    expires: AwareDatetime | None = None
    """When it ends by itself."""
    replicas: int = Field(default=1, ge=1)
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
    replications: int = Field(default=1, ge=1)
    """How often each row is asked."""
    workersPerReplica: int | None = Field(default=None, ge=1)
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

    rubric: Annotated[str, Field(min_length=1)]
    """Name of the rubric."""
    evaluation: EntityId
    """Id of the evaluation."""
    modules: list[EntityId] = Field(default_factory=list)
    """Ids of modules that hold the rubric's code."""
    datasetView: str | DataView | None = None
    """How the rubric sees the dataset: a view, or the id of one of the dataset's."""
    evaluationView: str | DataView | None = None
    """How the rubric sees the outputs: a view, or the id of one of the service's."""


class AuditProcedureCreateRequest(CreateRequest):
    """Which reports an audit needs."""

    name: Name
    """A name for people."""
    requirements: list[AuditRequirement] = Field(min_length=1)
    """The reports."""


class AuditCreateRequest(CreateRequest):
    """Several reports about one inference service, in one document."""

    auditProcedure: EntityId
    """Id of the procedure."""
    inferenceService: EntityId
    """Id of the service."""
    baseline: EntityId | None = None
    """Id of an earlier audit, with which this one is compared row by row."""


class AccountCreateRequest(SchemaModel):
    """Somebody who will own entities."""

    name: AccountName
    """Its name, which no other account may have."""
    identity: Identity = Field(default_factory=Identity)
    """Who it is elsewhere."""


class AccountPermissionsSetRequest(SchemaModel):
    """What keys of the account may be given at most."""

    permissions: list[AccessGrant]
    """Replaces what was there."""


class AccountTokenCreateRequest(SchemaModel):
    """A new key."""

    grants: list[AccessGrant] = Field(min_length=1)
    """What it may do; at most what the account may."""
    expires: AwareDatetime
    """When it ends."""


class InferenceSessionTokenCreateRequest(SchemaModel):
    """A new key of a session."""

    expires: AwareDatetime | None = None
    """When it ends; by default when the session does."""


def _labels(labels: dict[str, str | None]) -> dict[str, str | None]:
    for key, value in labels.items():
        if not re.fullmatch(LABEL_KEY_PATTERN, key) or len(key) > 317:
            raise ValueError(f"key {key!r} should be a Kubernetes label key, such as example.com/team")
        if value is not None and not _LABEL_VALUE.fullmatch(value):
            raise ValueError(f"{key}: {value!r} should be at most 63 letters, digits, '-', '_' and '.'")
    return labels


class LabelsEditRequest(SchemaModel):
    """A merge patch of labels: null takes one away."""

    labels: Annotated[dict[str, str | None], AfterValidator(_labels)] = Field(default_factory=dict)
    """Values by key."""


class DocumentationEditRequest(SchemaModel):
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
