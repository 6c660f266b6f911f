"""InferenceService: how a model is served, and the form of its requests and answers."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from steelyard_schema.base import DyffEntity, EntityIdentifier, Foreign, SchemaModel
from steelyard_schema.bounds import FEW, MANY, Argument, Count, Line, Word
from steelyard_schema.data import DataSchema, DataView, SchemaAdapter
from steelyard_schema.kubernetes import Quantity, VariableName
from steelyard_schema.model import Accelerator, ForeignModel, ModelResources

RunnerKind = Literal["bentoml_service_openllm", "container", "huggingface", "mock", "standalone", "vllm"]


HOST_PATTERN = r"^[^/_?#\s]+$"
MOUNT_PATTERN = r"^(/[.]*[^/.:\x00][^/:\x00]*)+/?$"
"""Pattern of absolute paths without `.` and `..`, and without the colon, which Kubernetes forbids here."""
IMAGE_PATTERN = r"^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$"


class ContainerImageSource(SchemaModel):
    """An image in a registry."""

    host: Word = Field(pattern=HOST_PATTERN)
    """Host of the registry, without scheme or path."""
    name: Word = Field(pattern=IMAGE_PATTERN)
    """Name of the image, such as steelyard/runner-sklearn."""
    digest: str = Field(pattern="^sha256:[0-9a-f]{64}$", max_length=71)
    """Digest of the image: `sha256:` and 64 hexadecimal digits."""
    tag: Word | None = None
    """Tag of the image, for people; the digest decides which image runs."""


class EnvVar(SchemaModel):
    """An environment variable."""

    name: VariableName
    """Name of the variable."""
    value: Argument
    """Value of the variable."""


class VolumeMountData(SchemaModel):
    """Content of a data mount."""

    source: EntityIdentifier
    """Entity whose files are mounted."""


class VolumeMountScratch(SchemaModel):
    """Space that is empty at the start and deleted at the end."""

    capacity: Quantity
    """Size of the space as a Kubernetes quantity, such as 1Gi."""


class VolumeMount(SchemaModel):
    """A folder in the runner's Pod. The field that belongs to `kind` is set."""

    kind: Literal["Data", "Scratch"]
    """Kind of mount: Data or Scratch."""
    name: Word
    """Name of the mount; `storage.inputs` has the location of a data mount under this name."""
    mountPath: Line = Field(pattern=MOUNT_PATTERN)
    """Absolute path of the folder in the Pod."""
    data: VolumeMountData | None = None
    """Content of the mount, if its kind is Data."""
    scratch: VolumeMountScratch | None = None
    """Size of the space, if the kind is Scratch."""

    @model_validator(mode="after")
    def _kind_is_set(self) -> Self:
        required, other = ("data", "scratch") if self.kind == "Data" else ("scratch", "data")
        if getattr(self, required) is None:
            raise ValueError(f"{required} is missing: kind is {self.kind}")
        if getattr(self, other) is not None:
            raise ValueError(f"{other} is set, but kind is {self.kind}")
        return self


class InferenceServiceBuilder(SchemaModel):
    """Program that builds an image from a model."""

    kind: Word
    """Kind of builder."""
    args: Annotated[list[Argument], MANY] | None = None
    """Arguments of the builder."""


class InferenceServiceRunner(SchemaModel):
    """Program that serves the model."""

    args: Annotated[list[Argument], MANY] | None = None
    """Arguments; `$(POD_IP)` is the address to listen on."""
    command: Annotated[list[Argument], MANY] | None = None
    """Command, in place of the image's own."""
    env: Annotated[list[EnvVar], FEW] | None = None
    """Environment variables."""
    image: ContainerImageSource | None = None
    """Image of the program; otherwise set `imageRef`. A mock always runs in an image of the platform."""
    imageRef: EntityIdentifier | None = None
    """Image that the platform keeps; otherwise set `image`."""
    resources: ModelResources
    """Resources of one replica."""
    volumeMounts: Annotated[list[VolumeMount], FEW] | None = None
    """Folders in the Pod."""
    workingDir: Line | None = None
    """Working directory."""
    kind: RunnerKind
    """Kind of runner."""
    accelerator: Accelerator | None = None
    """Accelerator of each node."""
    nodes: Count = 1
    """Number of nodes of one replica."""

    @model_validator(mode="after")
    def _one_image(self) -> Self:
        if self.image is not None and self.imageRef is not None:
            raise ValueError("image and imageRef are both set; one of them may be")
        return self


class InferenceInterface(SchemaModel):
    """Form of the service's requests and answers."""

    endpoint: Line
    """Path below the replica's root, such as v1/completions."""
    outputSchema: DataSchema
    """Schema of the output rows."""
    inputPipeline: Annotated[list[SchemaAdapter], FEW] | None = None
    """Steps that rewrite a dataset row into a request body."""
    outputPipeline: Annotated[list[SchemaAdapter], FEW] | None = None
    """Steps that rewrite an answer into response records."""


class InferenceServiceFields(SchemaModel):
    """Fields of an InferenceService besides those of every entity."""

    name: Word
    """Name for people."""
    builder: InferenceServiceBuilder | None = None
    """Program that builds the image; most services do not need one."""
    runner: InferenceServiceRunner | None = None
    """Program that serves the model."""
    interface: InferenceInterface
    """Form of the service's requests and answers."""
    outputViews: Annotated[list[DataView], FEW] = Field(default_factory=list)
    """Other forms of the outputs."""
    model: ForeignModel | None = None
    """Model that the service serves."""


class InferenceService(InferenceServiceFields, DyffEntity):
    """A model's server: the program, its resources, and the form of its requests and answers."""

    kind: Literal["InferenceService"] = "InferenceService"
    """Kind of the entity: InferenceService."""


class ForeignInferenceService(InferenceServiceFields, Foreign):
    """The part of an InferenceService that a session or an evaluation embeds."""
