"""Interface between the operator and a step: configuration, termination message, exit status.

The operator writes `StepConfig` into a ConfigMap, the step reads it; the step writes `Termination` at its end.
"""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from steelyard_schema.egress import EgressPolicy

EXIT_OK = 0
"""Success, also with row errors that the policy allows."""
EXIT_RETRY = 1
"""Failure that another attempt may overcome."""
EXIT_PERMANENT = 65
"""Failure that no other attempt can overcome (EX_DATAERR of sysexits.h)."""

TERMINATION_BYTES = 4096
"""Maximum size of a termination message: Kubernetes cuts a longer one, which would no longer be JSON."""


class ResourceRef(BaseModel):
    """The resource that a step works for."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    kind: str = Field(description="Kind of the resource.")
    namespace: str = Field(description="Its namespace.")
    name: str = Field(description="Its name.")
    uid: str = Field(description="Its uid.")


class SourceLimits(BaseModel):
    """Bounds of what a step takes from a data source."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    files: int = Field(default=10_000, ge=1, description="Maximum number of files of a data source.")
    bytes: int = Field(
        default=100 << 30, ge=1, description="Maximum bytes of a data source, and of the rows made of it."
    )


class StepConfig(BaseModel):
    """Content of the file that a step gets by `--config`."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    schemaVersion: Literal["0.1"] = Field(default="0.1", description="Version of this form.")
    step: str = Field(description="Module of the step in `steelyard.steps`.")
    attempt: int = Field(ge=1, description="Number of the attempt, from 1.")
    epoch: str = Field(description="Rank of the attempt among all writers of its output, ordered as text.")
    resource: ResourceRef = Field(description="The resource that the step works for.")
    spec: dict[str, Any] = Field(description="The resource's spec, its storage locations complete URLs.")
    replicas: str | None = Field(
        default=None, description="Where the replicas are found: `dns:HOST:PORT` or `file:PATH`."
    )
    egress: EgressPolicy | None = Field(
        default=None, description="Addresses outside that the step may call; absent: none."
    )
    limits: SourceLimits | None = Field(
        default=None, description="Bounds of the files taken from a data source, for the steps that read one."
    )


class Termination(BaseModel):
    """Last message of a step; `code` becomes the condition's reason."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)

    code: str = Field(description="One word, such as BadRequest.")
    message: str = Field(default="", description="A sentence for the user.")
    row: str | None = Field(default=None, description="Which row it was, where one is to blame.")


def epoch(creation: datetime, uid: str, attempt: int) -> str:
    """Return the epoch of an attempt. As text, a later resource and a later attempt sort after an earlier one."""
    return f"{int(creation.timestamp()):010d}-{uid[:8]}-{attempt:04d}"


def epoch_resource(epoch: str) -> str:
    """Return the part of an epoch that all attempts of one resource share."""
    return "-".join(epoch.split("-")[:2])


def epoch_again(epoch: str, times: int) -> str:
    """The epoch of an attempt that has begun again: after its own beginnings, before a verification and later attempts.

    Its first epoch is claimed already, and a claim belongs to its maker alone.
    """
    return f"{epoch}-again-{times:04d}" if times else epoch
