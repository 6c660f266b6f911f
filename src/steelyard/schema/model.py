"""Model: files of a model, fetched once and kept with their digests."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from steelyard.schema.base import DyffEntity, Foreign, SchemaModel
from steelyard.schema.bounds import FEW, Line, Natural, Word
from steelyard.schema.data import Volume
from steelyard.schema.kubernetes import ACCELERATOR_PATTERN, Quantity, check_accelerator

ModelArtifactKind = Literal["HuggingFaceCache", "Mock", "Volume"]
ModelSourceKind = Literal["GitLFS", "HuggingFaceHub", "Mock", "OpenLLM", "Upload"]
ModelStorageMedium = Literal["Mock", "ObjectStorage", "PersistentVolume", "FUSEVolume"]


def _http(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} should be an http or https URL")
    return url


class ModelArtifactHuggingFaceCache(SchemaModel):
    """A snapshot in the layout of the Hugging Face cache."""

    repoID: Word
    """Repository on the hub."""
    revision: Word
    """Commit, tag or branch."""


class ModelArtifact(SchemaModel):
    """The form in which the model is kept; the field of the kind is set."""

    kind: ModelArtifactKind
    """HuggingFaceCache, Mock or Volume."""
    huggingFaceCache: ModelArtifactHuggingFaceCache | None = None
    """For HuggingFaceCache."""
    volume: Volume | None = None
    """For Volume."""


class ModelSourceGitLFS(SchemaModel):
    """A git repository with large files."""

    url: Annotated[Line, AfterValidator(_http)]
    """http or https URL of the repository."""


class ModelSourceHuggingFaceHub(SchemaModel):
    """A repository of the Hugging Face hub."""

    repoID: Word
    """Repository on the hub."""
    revision: Word
    """Commit, tag or branch."""
    allowPatterns: Annotated[list[Line], FEW] | None = None
    """Only files that match one of these patterns."""
    ignorePatterns: Annotated[list[Line], FEW] | None = None
    """No file that matches one of these patterns."""


class ModelSourceOpenLLM(SchemaModel):
    """A model of the OpenLLM catalogue."""

    modelKind: Word
    """Kind of model."""
    modelID: Word
    """Its id."""
    modelVersion: Word
    """Its version."""


class ModelSource(SchemaModel):
    """Where the model comes from; the field of the kind is set."""

    kind: ModelSourceKind
    """GitLFS, HuggingFaceHub, Mock, OpenLLM or Upload."""
    gitLFS: ModelSourceGitLFS | None = None
    """For GitLFS."""
    huggingFaceHub: ModelSourceHuggingFaceHub | None = None
    """For HuggingFaceHub."""
    openLLM: ModelSourceOpenLLM | None = None
    """For OpenLLM."""


class ModelStorage(SchemaModel):
    """What the model is kept on."""

    medium: ModelStorageMedium
    """Mock, ObjectStorage, PersistentVolume or FUSEVolume."""


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
    """Which GPUs."""

    hardwareTypes: list[HardwareType] = Field(min_length=1, max_length=1000)
    """Acceptable types, such as nvidia.com/gpu-t4."""
    count: Natural = 1
    """How many per node."""
    memory: Quantity | None = None
    """Least memory of each."""


class Accelerator(SchemaModel):
    """An accelerator; the field of the kind is set."""

    kind: Word
    """GPU."""
    gpu: AcceleratorGPU | None = None
    """For GPU."""


class ModelFields(SchemaModel):
    """What a Model is besides an entity."""

    name: Word
    """A name for people."""
    artifact: ModelArtifact
    """The form in which the model is kept."""
    storage: ModelStorage | None = None
    """What it is kept on."""
    source: ModelSource
    """Where it comes from."""
    resources: ModelResources
    """What it takes to keep and to run it."""
    accelerators: Annotated[list[Accelerator], FEW] | None = None
    """Accelerators that it can run on."""


class Model(ModelFields, DyffEntity):
    """Files of a model, fetched once and kept with their digests."""

    kind: Literal["Model"] = "Model"
    """Always Model."""


class ForeignModel(Foreign):
    """What an InferenceService embeds of its Model."""

    name: Word
    """A name for people."""
    artifact: ModelArtifact
    """The form in which the model is kept."""
    storage: ModelStorage | None = None
    """What it is kept on."""
