"""Model: files of a model, fetched once and stored with their digests."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from steelyard_schema.base import DyffEntity, Foreign, SchemaModel
from steelyard_schema.bounds import FEW, HttpUrl, Line, Natural, Word
from steelyard_schema.data import Volume
from steelyard_schema.kubernetes import ACCELERATOR_PATTERN, Quantity, check_accelerator

ModelArtifactKind = Literal["HuggingFaceCache", "Mock", "Volume"]
ModelSourceKind = Literal["GitLFS", "HuggingFaceHub", "Mock", "OpenLLM", "Upload"]
ModelStorageMedium = Literal["Mock", "ObjectStorage", "PersistentVolume", "FUSEVolume"]


class ModelArtifactHuggingFaceCache(SchemaModel):
    """A snapshot in the layout of the Hugging Face cache."""

    repoID: Word
    """Name of the repository on the hub."""
    revision: Word
    """Commit, tag or branch."""


class ModelArtifact(SchemaModel):
    """Form in which the model is stored. The field that belongs to `kind` is set."""

    kind: ModelArtifactKind
    """Kind of form: HuggingFaceCache, Mock or Volume."""
    huggingFaceCache: ModelArtifactHuggingFaceCache | None = None
    """Snapshot, if the kind is HuggingFaceCache."""
    volume: Volume | None = None
    """Files, if the kind is Volume."""


class ModelSourceGitLFS(SchemaModel):
    """A git repository with large files."""

    url: HttpUrl
    """URL of the repository, http or https."""


class ModelSourceHuggingFaceHub(SchemaModel):
    """A repository of the Hugging Face hub."""

    repoID: Word
    """Name of the repository on the hub."""
    revision: Word
    """Commit, tag or branch."""
    allowPatterns: Annotated[list[Line], FEW] | None = None
    """Patterns of files to fetch; without them, all files."""
    ignorePatterns: Annotated[list[Line], FEW] | None = None
    """Patterns of files not to fetch."""


class ModelSourceOpenLLM(SchemaModel):
    """A model of the OpenLLM catalogue."""

    modelKind: Word
    """Kind of model."""
    modelID: Word
    """Id of the model."""
    modelVersion: Word
    """Version of the model."""


class ModelSource(SchemaModel):
    """Source of the model. The field that belongs to `kind` is set."""

    kind: ModelSourceKind
    """Kind of source: GitLFS, HuggingFaceHub, Mock, OpenLLM or Upload."""
    gitLFS: ModelSourceGitLFS | None = None
    """Repository, if the kind is GitLFS."""
    huggingFaceHub: ModelSourceHuggingFaceHub | None = None
    """Repository, if the kind is HuggingFaceHub."""
    openLLM: ModelSourceOpenLLM | None = None
    """Model of the catalogue, if the kind is OpenLLM."""


class ModelStorage(SchemaModel):
    """Medium on which the model is stored."""

    medium: ModelStorageMedium
    """Kind of medium: Mock, ObjectStorage, PersistentVolume or FUSEVolume."""


class ModelResources(SchemaModel):
    """Resources in Kubernetes quantities."""

    storage: Quantity | None = None
    """Space for files, such as 10Gi."""
    memory: Quantity | None = None
    """Memory, such as 512Mi."""
    cpu: Quantity | None = None
    """Processors, such as 500m."""


HardwareType = Annotated[
    str, Field(pattern=ACCELERATOR_PATTERN, max_length=317), AfterValidator(check_accelerator)
]


class AcceleratorGPU(SchemaModel):
    """GPUs of a node."""

    hardwareTypes: list[HardwareType] = Field(min_length=1, max_length=1000)
    """Acceptable types of GPUs, such as nvidia.com/gpu-t4."""
    count: Natural = 1
    """Number of GPUs per node."""
    memory: Quantity | None = None
    """Minimum memory of one GPU."""


class Accelerator(SchemaModel):
    """An accelerator. The field that belongs to `kind` is set."""

    kind: Word
    """Kind of accelerator: GPU."""
    gpu: AcceleratorGPU | None = None
    """GPUs, if the kind is GPU."""


class ModelFields(SchemaModel):
    """Fields of a Model besides those of every entity."""

    name: Word
    """Name for people."""
    artifact: ModelArtifact
    """Form in which the model is stored."""
    storage: ModelStorage | None = None
    """Medium on which the model is stored."""
    source: ModelSource
    """Source of the model."""
    resources: ModelResources
    """Resources to store and to run the model."""
    accelerators: Annotated[list[Accelerator], FEW] | None = None
    """Accelerators on which the model can run."""


class Model(ModelFields, DyffEntity):
    """Files of a model, fetched once and stored with their digests."""

    kind: Literal["Model"] = "Model"
    """Kind of the entity: Model."""


class ForeignModel(Foreign):
    """The part of a Model that an InferenceService embeds."""

    name: Word
    """Name for people."""
    artifact: ModelArtifact
    """Form in which the model is stored."""
    storage: ModelStorage | None = None
    """Medium on which the model is stored."""
