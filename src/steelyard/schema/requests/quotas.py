"""The request that sets a quota."""

from steelyard.schema.quota import QuotaFields
from steelyard.schema.requests.base import Request


class QuotaCreateRequest(QuotaFields, Request):
    """Sets the limit of a principal and a resource, which may have had another one."""
