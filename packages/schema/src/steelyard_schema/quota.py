"""Quota: a limit on what a principal may use of a resource, at once or within a time."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from steelyard_schema.base import LABEL_KEY_PATTERN, Duration, SchemaModel, StoredEntity, Time
from steelyard_schema.bounds import FEW, LabelKey, Word
from steelyard_schema.ids import NULL_ID, id_in_namespace
from steelyard_schema.kubernetes import Quantity
from steelyard_schema.quantity import amount

SYSTEM: Literal["__system__"] = "__system__"
"""Account that owns quotas."""
UNLIMITED: Literal["Unlimited"] = "Unlimited"
QuotaFlavor = Literal["Rate", "Total"]


def quota_id(principal: str, resource: str, flavor: str) -> str:
    """Return the id of a quota: uuid5 of each of its keys, one within the other, in this order."""
    id = NULL_ID
    for key in (principal, resource, flavor):
        id = id_in_namespace(id, key)
    return id


class QuotaFields(SchemaModel):
    """Fields of a quota that its request has."""

    principal: Word
    """`__global__`, or accounts/<account>."""
    resource: Annotated[str, Field(pattern=LABEL_KEY_PATTERN, max_length=317)]
    """Resource, such as cpu or workflows.dyff.io/admitted."""
    flavor: QuotaFlavor
    """Total for use at once or ever, Rate for use within a time."""
    limit: Quantity | Literal["Unlimited"] = "0"
    """Limit, a whole number, or Unlimited."""
    duration: Duration | None = None
    """Time within which a Rate counts."""
    epoch: Time | None = None
    """Beginning of the cycles of a Rate, each as long as `duration`; without it, the time slides."""

    @model_validator(mode="after")
    def _flavor(self) -> Self:
        if self.flavor == "Rate" and self.duration is None:
            raise ValueError("duration is missing; the flavor is Rate")
        if self.flavor == "Total" and (self.duration is not None or self.epoch is not None):
            raise ValueError("duration and epoch belong to the flavor Rate; the flavor is Total")
        if self.limit != UNLIMITED and amount(self.limit) % 1:
            raise ValueError(f"limit: {self.limit!r} should be a whole number")
        return self

    @property
    def key(self) -> str:
        """Id of the quota, which follows from principal, resource and flavor."""
        return quota_id(self.principal, self.resource, self.flavor)


class QuotaMetadata(SchemaModel):
    """Metadata of a quota."""

    revision: Word | None = None
    """Id of the current revision."""


class Quota(QuotaFields, StoredEntity):
    """A limit on what a principal may use of a resource."""

    account: Literal["__system__"] = SYSTEM
    """Account that owns the quota: the platform's own."""
    usage: Quantity | None = None
    """Amount that counts for the quota now: held, admitted or created within its time. Absent once deleted."""
    metadata: QuotaMetadata = Field(default_factory=QuotaMetadata)
    """Metadata of the quota."""
    kind: Literal["Quota"] = "Quota"
    """Kind of the entity: Quota."""

    @model_validator(mode="after")
    def _id(self) -> Self:
        if self.id != self.key:
            raise ValueError(
                f"id: {self.id} should be {self.key}, which follows from principal, resource and flavor"
            )
        return self


class StoredQuota(Quota):
    """A quota as the platform keeps it: with labels, which the published commands have no field for."""

    labels: Annotated[dict[LabelKey, Word], FEW] = Field(default_factory=dict)
    """Labels: key and value pairs in the syntax of Kubernetes labels."""
