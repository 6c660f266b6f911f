"""Routes of quotas: one sets a quota, the others are those of every kind, without documentation."""

from collections.abc import Iterator

from steelyard.api.entities.collection import ReadCollection
from steelyard.api.entities.routes import entity_routes
from steelyard.api.http.access import Grant
from steelyard.api.http.routing import Route
from steelyard.api.quotas.setting import put
from steelyard.api.quotas.usage import with_usage
from steelyard_schema.quota import StoredQuota
from steelyard_schema.requests import QuotaCreateRequest


def quota_routes() -> Iterator[Route]:
    quotas, check = ReadCollection(kind="Quota", shown=with_usage), Grant("quotas", "create")
    yield Route(
        "POST", quotas.path, check, put, "Set: Quota", QuotaCreateRequest, StoredQuota, errors=(409, 503)
    )
    yield from entity_routes(quotas, documented=False)
