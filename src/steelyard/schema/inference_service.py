"""InferenceService: how a model is served, and how it is asked."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from steelyard.schema.base import DyffEntity, EntityIdentifier, Foreign, SchemaModel
from steelyard.schema.bounds import FEW, MANY, Argument, Count, Line, Word
from steelyard.schema.data import DataSchema, DataView, SchemaAdapter
from steelyard.schema.kubernetes import Quantity, VariableName
from steelyard.schema.model import Accelerator, ForeignModel, ModelResources

RunnerKind = Literal["bentoml_service_openllm", "container", "huggingface", "mock", "standalone", "vllm"]


HOST_PATTERN = r"^[^/_?#\s]+$"
MOUNT_PATTERN = r"^(/[.]*[^/.:\x00][^/:\x00]*)+/?$"
"""Absolute, without `.` and `..`, and without the colon that Kubernetes forbids here."""
IMAGE_PATTERN = r"^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$"


class ContainerImageSource(SchemaModel):
    """An image in a registry."""

    host: Word = Field(pattern=HOST_PATTERN)
    """Host of the registry, without scheme or path."""
    name: Word = Field(pattern=IMAGE_PATTERN)
    """Name of the image, such as steelyard/runner-sklearn."""
    digest: str = Field(pattern="^sha256:[0-9a-f]{64}$", max_length=71)
    """sha256: and 64 hexadecimal digits."""
    tag: Word | None = None
    """For people; the digest decides."""


class EnvVar(SchemaModel):
    """An environment variable."""

    name: VariableName
    """Its name."""
    value: Argument
    """Its value."""


class VolumeMountData(SchemaModel):
    """What a data mount holds."""

    source: EntityIdentifier
    """The entity whose files it holds."""


class VolumeMountScratch(SchemaModel):
    """Space that is empty at first and gone at the end."""

    capacity: Quantity
    """Kubernetes quantity, such as 1Gi."""


class VolumeMount(SchemaModel):
    """A folder in the runner's Pod; the field of the kind is set."""

    kind: Literal["Data", "Scratch"]
    """Data or Scratch."""
    name: Word
    """Its name; `storage.inputs` has the location of a data mount under it."""
    mountPath: Line = Field(pattern=MOUNT_PATTERN)
    """Absolute path in the Pod."""
    data: VolumeMountData | None = None
    """For Data."""
    scratch: VolumeMountScratch | None = None
    """For Scratch."""

    @model_validator(mode="after")
    def _kind_is_set(self) -> Self:
        wanted, other = ("data", "scratch") if self.kind == "Data" else ("scratch", "data")
        if getattr(self, wanted) is None:
            raise ValueError(f"{wanted} is missing: kind is {self.kind}")
        if getattr(self, other) is not None:
            raise ValueError(f"{other} is set, but kind is {self.kind}")
        return self


class InferenceServiceBuilder(SchemaModel):
    """Builds an image from a model."""

    kind: Word
    """Kind of builder."""
    args: Annotated[list[Argument], MANY] | None = None
    """Its arguments."""


class InferenceServiceRunner(SchemaModel):
    """The program that serves the model."""

    args: Annotated[list[Argument], MANY] | None = None
    """Arguments; `$(POD_IP)` is the address to listen on."""
    command: Annotated[list[Argument], MANY] | None = None
    """Command, in place of the image's own."""
    env: Annotated[list[EnvVar], FEW] | None = None
    """Environment variables."""
    image: ContainerImageSource | None = None
    """The image; or `imageRef`. A mock runs in an image of the platform's, whichever is named."""
    imageRef: EntityIdentifier | None = None
    """An image kept by the platform; or `image`."""
    resources: ModelResources
    """What one replica needs."""
    volumeMounts: Annotated[list[VolumeMount], FEW] | None = None
    """Folders in the Pod."""
    workingDir: Line | None = None
    """Working directory."""
    kind: RunnerKind
    """Which runner."""
    accelerator: Accelerator | None = None
    """Accelerator of each node."""
    nodes: Count = 1
    """Nodes of one replica."""

    @model_validator(mode="after")
    def _one_image(self) -> Self:
        if self.image is not None and self.imageRef is not None:
            raise ValueError("image and imageRef are both set; one of them may be")
        return self


class InferenceInterface(SchemaModel):
    """How the service is asked and what it answers."""

    endpoint: Line
    """Path below the replica's root, such as v1/completions."""
    outputSchema: DataSchema
    """Schema of the output rows."""
    inputPipeline: Annotated[list[SchemaAdapter], FEW] | None = None
    """Rewrites a dataset row into a request body."""
    outputPipeline: Annotated[list[SchemaAdapter], FEW] | None = None
    """Rewrites an answer into response records."""


class InferenceServiceFields(SchemaModel):
    """What an InferenceService is besides an entity."""

    name: Word
    """A name for people."""
    builder: InferenceServiceBuilder | None = None
    """Builds the image; most services have none."""
    runner: InferenceServiceRunner | None = None
    """The program that serves the model."""
    interface: InferenceInterface
    """How it is asked and what it answers."""
    outputViews: Annotated[list[DataView], FEW] = Field(default_factory=list)
    """Other forms of its outputs."""
    model: ForeignModel | None = None
    """The model that it serves."""


class InferenceService(InferenceServiceFields, DyffEntity):
    """How a model is served, and how it is asked."""

    kind: Literal["InferenceService"] = "InferenceService"
    """Always InferenceService."""


class ForeignInferenceService(InferenceServiceFields, Foreign):
    """What a session or an evaluation embeds of its InferenceService."""
