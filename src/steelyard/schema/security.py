"""What a workflow is trusted with; an administrator's grant is needed to set it."""

from typing import Annotated

from pydantic import Field

from steelyard.schema.base import SchemaModel
from steelyard.schema.bounds import FEW, LabelKey, Word


class QuotaSelector(SchemaModel):
    """Names quotas; `*` stands for any."""

    principal: Word
    """`__global__` or accounts/<account>."""
    resource: LabelKey
    """Resource, such as workflows.dyff.io/admitted."""
    flavor: Word
    """Rate or Total."""


class SecurityContext(SchemaModel):
    """What the workflow is trusted with."""

    trusted: bool = True
    """Whether its code is trusted."""
    ignoreQuotas: Annotated[list[QuotaSelector], FEW] = Field(default_factory=list)
    """Quotas that do not count for it."""
