"""Create requests of data, models, services, sessions, evaluations, reports and audits."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from steelyard_schema.audit import AuditRequirement
from steelyard_schema.base import SchemaModel
from steelyard_schema.bounds import FEW, Count, Line, Rubric, Word
from steelyard_schema.data import Artifact, DataSchema, DataView
from steelyard_schema.data_source import UPLOAD, DataSourceFields
from steelyard_schema.dataset import DatasetFields
from steelyard_schema.evaluation import EvaluationClientConfiguration, Replications
from steelyard_schema.inference_service import (
    InferenceInterface,
    InferenceServiceBuilder,
    InferenceServiceRunner,
    VolumeMount,
)
from steelyard_schema.model import Accelerator, ModelFields
from steelyard_schema.module import ModuleFields
from steelyard_schema.paths import check_artifact_paths, check_md5
from steelyard_schema.requests.base import (
    AccountName,
    CreateRequest,
    End,
    EntityId,
    EntityReference,
    Name,
    Request,
)
from steelyard_schema.secrets import ServiceSecrets, SourceSecrets
from steelyard_schema.source_addresses import SourceKind, source_address
from steelyard_schema.variables import size_faults

OWN_MOUNTS = ("/tmp", "/etc/steelyard")
"""Paths at which every Pod of the platform has a folder or its configuration."""


def _check_artifacts(artifacts: list[Artifact]) -> list[Artifact]:
    for artifact in artifacts:
        check_md5(artifact.digest.md5, artifact.path)
    check_artifact_paths([artifact.path for artifact in artifacts])
    return artifacts


class DatasetCreateRequest(DatasetFields, CreateRequest):
    """Creates a dataset, whose files are uploaded next."""

    name: Name
    """Name for people."""
    artifacts: Annotated[
        list[Artifact], Field(min_length=1, max_length=10_000), AfterValidator(_check_artifacts)
    ]
    """Files of the dataset, with their MD5 digests in base64."""


class _SourceOfDataset(CreateRequest):
    """Fields of a dataset's source. They stand before those that are checked against them."""

    dataSource: EntityId | None = None
    """Id of the data source that the rows are made from."""
    files: Annotated[list[Line], FEW] | None = None
    """Patterns of the data source's files that hold the rows, such as `data/*.csv`; by default all of a known form."""

    @field_validator("files")
    @classmethod
    def _check_files(cls, files: list[str] | None, info: ValidationInfo) -> list[str] | None:
        if files is not None and info.data.get("dataSource") is None:
            raise ValueError("should be given together with dataSource, whose files it chooses from")
        return files


class DatasetOfSourceCreateRequest(DatasetCreateRequest, _SourceOfDataset):
    """Creates a dataset. Its files are uploaded next, or its rows are made from the files of a data source."""

    artifacts: Annotated[list[Artifact], Field(max_length=10_000), AfterValidator(_check_artifacts)] = Field(
        default_factory=list, validate_default=True
    )
    """Files of the dataset, with their MD5 digests in base64; none with `dataSource`."""
    schema_: DataSchema | None = Field(default=None, alias="schema")  # type: ignore[assignment]
    """Schema of the rows; with `dataSource`, the one that the rows are brought into, by default as they are found."""

    @field_validator("artifacts")
    @classmethod
    def _check_uploads(cls, artifacts: list[Artifact], info: ValidationInfo) -> list[Artifact]:
        if (info.data.get("dataSource") is None) == (not artifacts):
            raise ValueError("should list the files to upload, and be empty if dataSource is given")
        return artifacts


class ModuleCreateRequest(ModuleFields, CreateRequest):
    """Creates a module, whose files are uploaded next."""

    name: Name
    """Name for people."""
    artifacts: Annotated[
        list[Artifact], Field(min_length=1, max_length=10_000), AfterValidator(_check_artifacts)
    ]
    """Files of the module, with their MD5 digests in base64."""


class ModelCreateRequest(ModelFields, CreateRequest):
    """Creates a model; if its source is Upload, the files are uploaded next."""

    name: Name
    """Name for people."""
    secrets: SourceSecrets | None = None
    """Secrets of the account that the fetching needs, by name; for a gated model of the hub, its token."""

    @model_validator(mode="after")
    def _files(self) -> Self:
        files = self.artifact.volume.files if self.artifact.volume else []
        for file in files:
            check_md5(file.digest.md5, file.path)
        check_artifact_paths([file.path for file in files])
        return self


class InferenceServiceCreateRequest(CreateRequest):
    """Creates an inference service: a program that serves a model."""

    name: Name
    """Name for people."""
    builder: InferenceServiceBuilder | None = None
    """Program that builds the image."""
    runner: InferenceServiceRunner | None = None
    """Program that serves the model."""
    interface: InferenceInterface
    """Form of the service's requests and answers."""
    outputViews: Annotated[list[DataView], FEW] = Field(default_factory=list)
    """Other forms of the outputs."""
    model: EntityReference | None = None
    """Id of the model, or `family@tag`."""
    secrets: ServiceSecrets | None = None
    """Secrets of the account that sessions of the service need, by name."""

    @model_validator(mode="after")
    def _one_image(self) -> Self:
        if self.runner is None:
            raise ValueError("runner is missing; it should name the program that serves the model")
        if (self.runner.image is None) == (self.runner.imageRef is None):
            raise ValueError("runner: exactly one of image and imageRef should be set")
        check_mounts(self.runner.volumeMounts or [])
        env = [variable.model_dump() for variable in self.runner.env or []]
        texts = {"command": self.runner.command or [], "args": self.runner.args or []}
        for field, fault in size_faults(env, texts):
            raise ValueError(f"runner.{field} {fault}")
        return self


class InferenceSessionCreateRequest(CreateRequest):
    """Creates an inference session: replicas of a service that run for a while."""

    expires: End | None = None
    """Time at which the session ends by itself."""
    replicas: Count = 1
    """Number of replicas."""
    accelerator: Accelerator | None = None
    """Accelerator of each replica."""
    useSpotPods: bool = True
    """True if cheaper nodes may be used that can be taken away at any time."""
    inferenceService: EntityReference
    """Id of the service, or `family@tag`."""


class EvaluationInferenceSessionRequest(SchemaModel):
    """Session that is started for an evaluation."""

    expires: End | None = None
    """Time at which the session ends by itself."""
    replicas: Count = 1
    """Number of replicas."""
    accelerator: Accelerator | None = None
    """Accelerator of each replica."""
    useSpotPods: bool = True
    """True if cheaper nodes may be used that can be taken away at any time."""
    inferenceService: EntityReference
    """Id of the service, or `family@tag`."""


class EvaluationCreateRequest(CreateRequest):
    """Creates an evaluation: every row of a dataset is asked of an inference service."""

    dataset: EntityReference
    """Id of the dataset, or `family@tag`."""
    replications: Replications = 1
    """Number of times that every row is asked."""
    workersPerReplica: Count | None = None
    """Maximum requests in flight per replica."""
    client: EvaluationClientConfiguration = Field(default_factory=EvaluationClientConfiguration)
    """Settings of the client that sends the requests, and its treatment of errors."""
    inferenceSession: EvaluationInferenceSessionRequest | None = None
    """Session to start; otherwise set `inferenceSessionReference`."""
    inferenceSessionReference: EntityId | None = None
    """Id of a running session; otherwise set `inferenceSession`."""

    @model_validator(mode="after")
    def _one_session(self) -> Self:
        if (self.inferenceSession is None) == (self.inferenceSessionReference is None):
            raise ValueError("exactly one of inferenceSession and inferenceSessionReference should be set")
        return self


class ReportCreateRequest(CreateRequest):
    """Creates a report: a rubric scores the outputs of an evaluation."""

    rubric: Annotated[Rubric, Field(min_length=1)]
    """Name of the rubric."""
    evaluation: EntityId
    """Id of the evaluation."""
    modules: Annotated[list[EntityReference], FEW] = Field(default_factory=list)
    """Ids of modules that hold the rubric's code, or `family@tag`."""
    datasetView: Word | DataView | None = None
    """View of the dataset that the rubric reads, or the id of one of the dataset's views."""
    evaluationView: Word | DataView | None = None
    """View of the outputs that the rubric reads, or the id of one of the service's views."""


class AuditProcedureCreateRequest(CreateRequest):
    """Creates an audit procedure: the list of the reports that an audit needs."""

    name: Name
    """Name for people."""
    requirements: list[AuditRequirement] = Field(min_length=1, max_length=1000)
    """Reports that an audit needs."""


class AuditCreateRequest(CreateRequest):
    """Creates an audit: several reports about one inference service, in one document."""

    auditProcedure: EntityId
    """Id of the procedure."""
    inferenceService: EntityReference
    """Id of the service, or `family@tag`."""
    baseline: EntityId | None = None
    """Id of an earlier audit, with which this one is compared row by row."""
    useCase: Name | None = None
    """Use of the system for which it is audited, in a sentence; the audit's page shows it."""
    author: Name | None = None
    """Person or team that is responsible for the audit; the audit's page shows it."""


class WorkflowRerunRequest(Request):
    """Runs a workflow again: a new entity of the same request."""

    account: AccountName | None = None
    """Account of the new entity, which is that of the earlier one."""


class InferenceSessionTokenCreateRequest(Request):
    """Creates another key of a session."""

    expires: End | None = None
    """Time at which the key expires; by default the end of the session."""


class ArtifactCreateRequest(CreateRequest):
    """Creates an artifact of the registry, which is pushed next."""


Fetched = TypeVar("Fetched")


def _only_fetched(value: Fetched | None) -> Fetched | None:
    if value is not None:
        raise ValueError("should not be there if sourceKind is upload: it is about files that are fetched")
    return value


class DataSourceCreateRequest(DataSourceFields, CreateRequest):
    """Creates a data source, whose files are fetched or uploaded next."""

    name: Name
    """Name for people."""
    sourceKind: SourceKind | Literal["upload"]
    """Kind of place: huggingface or zenodo; upload for files that are uploaded next."""
    source: Line | None = Field(default=None, validate_default=True)
    """Address of the data: OWNER/NAME@REVISION or a URL of the hub, a record's number, DOI or URL of Zenodo."""
    artifacts: Annotated[list[Artifact], Field(max_length=10_000), AfterValidator(_check_artifacts)] = Field(
        default_factory=list, validate_default=True
    )
    """Files to upload, with their MD5 digests in base64; none of a source that is fetched."""
    files: Annotated[list[Line], FEW] | None = None
    """Patterns of files to fetch, such as `data/*.csv`; without them, all files."""
    secrets: SourceSecrets | None = None
    """Secrets of the account that the fetching needs, by name; for a gated or private source, its token."""

    @field_validator("source")
    @classmethod
    def _readable(cls, source: str | None, info: ValidationInfo) -> str | None:
        kind = info.data.get("sourceKind")
        if kind == UPLOAD:
            return _only_fetched(source)
        if source is None:
            raise ValueError("is missing; it should name the data, such as OWNER/NAME@REVISION")
        if kind:
            source_address(kind, source)
        return source

    @field_validator("artifacts")
    @classmethod
    def _check_announced(cls, artifacts: list[Artifact], info: ValidationInfo) -> list[Artifact]:
        kind = info.data.get("sourceKind")
        if kind and (kind == UPLOAD) == (not artifacts):
            raise ValueError("should list the files to upload if sourceKind is upload, else be empty")
        return artifacts

    @field_validator("files", "secrets")
    @classmethod
    def _check_place(cls, value: Fetched, info: ValidationInfo) -> Fetched | None:
        return _only_fetched(value) if info.data.get("sourceKind") == UPLOAD else value


def check_mounts(mounts: Sequence[VolumeMount]) -> None:
    """Raise ValueError, which names the mount, for mounts that Kubernetes or the platform does not allow together."""
    names: set[str] = set()
    paths: set[str] = set()
    for mount in mounts:
        place, path = f"runner.volumeMounts.{mount.name}", mount.mountPath.rstrip("/")
        if mount.name in names:
            raise ValueError(f"{place}: two mounts have this name")
        if path in OWN_MOUNTS:
            raise ValueError(f"{place}: mountPath {mount.mountPath!r} is the platform's own")
        if path in paths:
            raise ValueError(f"{place}: two mounts have the mountPath {mount.mountPath!r}")
        names.add(mount.name)
        paths.add(path)
