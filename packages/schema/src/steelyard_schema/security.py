"""Privileges of workflows; only an administrator may set them."""

from typing import Annotated

from pydantic import Field

from steelyard_schema.base import SchemaModel
from steelyard_schema.bounds import FEW, LabelKey, Word


class QuotaSelector(SchemaModel):
    """A selection of quotas; `*` stands for any."""

    principal: Word
    """`__global__` or accounts/<account>."""
    resource: LabelKey
    """Resource, such as workflows.dyff.io/admitted."""
    flavor: Word
    """Rate or Total."""


class SecurityContext(SchemaModel):
    """Privileges of the workflow."""

    trusted: bool = True
    """True if the workflow's code is trusted."""
    ignoreQuotas: Annotated[list[QuotaSelector], FEW] = Field(default_factory=list)
    """Quotas that do not count for the workflow."""
