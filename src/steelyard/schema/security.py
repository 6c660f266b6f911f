"""What a workflow is trusted with; an administrator's grant is needed to set it."""

from pydantic import Field

from steelyard.schema.base import SchemaModel


class QuotaSelector(SchemaModel):
    """Names quotas; `*` stands for any."""

    principal: str
    """`__global__` or accounts/<account>."""
    resource: str
    """Resource, such as workflows.dyff.io/admitted."""
    flavor: str
    """Rate or Total."""


class SecurityContext(SchemaModel):
    """What the workflow is trusted with."""

    trusted: bool = True
    """Whether its code is trusted."""
    ignoreQuotas: list[QuotaSelector] = Field(default_factory=list)
    """Quotas that do not count for it."""
