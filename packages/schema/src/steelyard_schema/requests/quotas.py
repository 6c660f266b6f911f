"""The request that sets a quota."""

from steelyard_schema.quota import QuotaFields
from steelyard_schema.requests.base import Request


class QuotaCreateRequest(QuotaFields, Request):
    """Sets the limit of a principal and a resource, which may have had another one."""
