"""Model: files of a model, fetched once and kept with their digests."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from steelyard.schema.base import DyffEntity, Foreign, SchemaModel
from steelyard.schema.data import Volume

ModelArtifactKind = Literal["HuggingFaceCache", "Mock", "Volume"]
ModelSourceKind = Literal["GitLFS", "HuggingFaceHub", "Mock", "OpenLLM", "Upload"]
ModelStorageMedium = Literal["Mock", "ObjectStorage", "PersistentVolume", "FUSEVolume"]


def _http(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} should be an http or https URL")
    return url


class ModelArtifactHuggingFaceCache(SchemaModel):
    """A snapshot in the layout of the Hugging Face cache."""

    repoID: str
    """Repository on the hub."""
    revision: str
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

    url: Annotated[str, AfterValidator(_http)]
    """http or https URL of the repository."""


class ModelSourceHuggingFaceHub(SchemaModel):
    """A repository of the Hugging Face hub."""

    repoID: str
    """Repository on the hub."""
    revision: str
    """Commit, tag or branch."""
    allowPatterns: list[str] | None = None
    """Only files that match one of these patterns."""
    ignorePatterns: list[str] | None = None
    """No file that matches one of these patterns."""


class ModelSourceOpenLLM(SchemaModel):
    """A model of the OpenLLM catalogue."""

    modelKind: str
    """Kind of model."""
    modelID: str
    """Its id."""
    modelVersion: str
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


QUANTITY_PATTERN = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$"
Quantity = Annotated[str, Field(pattern=QUANTITY_PATTERN)]
"""An amount as Kubernetes writes it."""


class ModelResources(SchemaModel):
    """Resources in Kubernetes quantities."""

    storage: Quantity | None = None
    """Space for files, such as 10Gi."""
    memory: Quantity | None = None
    """Memory, such as 512Mi."""
    cpu: Quantity | None = None
    """Processors, such as 500m."""


class AcceleratorGPU(SchemaModel):
    """Which GPUs."""

    hardwareTypes: list[str] = Field(min_length=1)
    """Acceptable types, such as nvidia.com/gpu-t4."""
    count: int = 1
    """How many per node."""
    memory: Quantity | None = None
    """Least memory of each."""


class Accelerator(SchemaModel):
    """An accelerator; the field of the kind is set."""

    kind: str
    """GPU."""
    gpu: AcceleratorGPU | None = None
    """For GPU."""


class ModelFields(SchemaModel):
    """What a Model is besides an entity."""

    name: str
    """A name for people."""
    artifact: ModelArtifact
    """The form in which the model is kept."""
    storage: ModelStorage | None = None
    """What it is kept on."""
    source: ModelSource
    """Where it comes from."""
    resources: ModelResources
    """What it takes to keep and to run it."""
    accelerators: list[Accelerator] | None = None
    """Accelerators that it can run on."""


class Model(ModelFields, DyffEntity):
    """Files of a model, fetched once and kept with their digests."""

    kind: Literal["Model"] = "Model"
    """Always Model."""


class ForeignModel(Foreign):
    """What an InferenceService embeds of its Model."""

    name: str
    """A name for people."""
    artifact: ModelArtifact
    """The form in which the model is kept."""
    storage: ModelStorage | None = None
    """What it is kept on."""
