"""InferenceSession: replicas of an InferenceService that run for a while."""

from typing import Literal

from pydantic import Field

from steelyard.schema.base import DyffEntity, SchemaModel, Time
from steelyard.schema.bounds import Count, Id
from steelyard.schema.inference_service import ForeignInferenceService, InferenceInterface
from steelyard.schema.model import Accelerator
from steelyard.schema.security import SecurityContext


class InferenceSessionSpec(SchemaModel):
    """Which service runs, how often, and on what."""

    expires: Time | None = None
    """When it ends by itself."""
    replicas: Count = 1
    """How many replicas."""
    accelerator: Accelerator | None = None
    """Accelerator of each replica."""
    useSpotPods: bool = True
    """Whether cheaper nodes that may be taken away will do."""
    inferenceService: ForeignInferenceService
    """The service."""


class InferenceSessionFields(InferenceSessionSpec):
    """What an InferenceSession is besides an entity."""

    securityContext: SecurityContext = Field(default_factory=SecurityContext)
    """What the workflow is trusted with."""


class InferenceSession(InferenceSessionFields, DyffEntity):
    """Replicas of an InferenceService that run for a while."""

    kind: Literal["InferenceSession"] = "InferenceSession"
    """Always InferenceSession."""


class InferenceSessionReference(SchemaModel):
    """A session that runs already."""

    session: Id
    """Its id."""
    interface: InferenceInterface
    """How it is asked and what it answers."""
