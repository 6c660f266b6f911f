"""InferenceSession: replicas of an InferenceService that run for a while."""

from typing import Literal

from pydantic import Field

from steelyard_schema.base import DyffEntity, SchemaModel, Time
from steelyard_schema.bounds import Count, Id
from steelyard_schema.inference_service import ForeignInferenceService, InferenceInterface
from steelyard_schema.model import Accelerator
from steelyard_schema.security import SecurityContext


class InferenceSessionSpec(SchemaModel):
    """Service, number of replicas and nodes of a session."""

    expires: Time | None = None
    """Time at which the session ends by itself."""
    replicas: Count = 1
    """Number of replicas."""
    accelerator: Accelerator | None = None
    """Accelerator of each replica."""
    useSpotPods: bool = True
    """True if cheaper nodes may be used that can be taken away at any time."""
    inferenceService: ForeignInferenceService
    """Service that the replicas run."""


class InferenceSessionFields(InferenceSessionSpec):
    """Fields of an InferenceSession besides those of every entity."""

    securityContext: SecurityContext = Field(default_factory=SecurityContext)
    """Privileges of the workflow."""


class InferenceSession(InferenceSessionFields, DyffEntity):
    """Replicas of an InferenceService that run for a while."""

    kind: Literal["InferenceSession"] = "InferenceSession"
    """Kind of the entity: InferenceSession."""


class InferenceSessionReference(SchemaModel):
    """A session that is already running."""

    session: Id
    """Id of the session."""
    interface: InferenceInterface
    """Form of the service's requests and answers."""
