"""Fills in the usage of quotas that an answer shows."""

from collections.abc import Sequence

import orjson
from pydantic import ValidationError

from steelyard.accounts.creations import Creations
from steelyard.accounts.quota_usage import QuotaUsage, admissions_since, creations_since
from steelyard.accounts.quotas import TOO_MANY
from steelyard.api.http.context import RequestContext
from steelyard_schema.quantity import quantity
from steelyard_schema.quota import StoredQuota


async def with_usage(context: RequestContext, quotas: Sequence[bytes]) -> Sequence[bytes]:
    """Return the JSON of quotas with what counts for each now. One that is Deleted counts nothing."""
    parsed = [_parse(json) for json in quotas]
    in_force = [quota for quota in parsed if quota is not None]
    if not in_force:
        return quotas
    claims = context.api.platform.accounts_database.claims
    admissions = await claims.list_counted(admissions_since(in_force, context.now))
    window = creations_since(in_force, context.now)
    created = await claims.list_created(*window) if window else ()
    # Those that a rate has refused count for none.
    counted = Creations(claim for claim in created if claim.reason != TOO_MANY)
    usage = QuotaUsage(admissions, counted, context.now)
    return [
        json
        if quota is None
        else orjson.dumps({**orjson.loads(json), "usage": quantity(usage.amount(quota))})
        for quota, json in zip(parsed, quotas, strict=True)
    ]


def _parse(json: bytes) -> StoredQuota | None:
    """Return a quota that is in force; None for one that is deleted, or that only an older schema accepts."""
    try:
        quota = StoredQuota.model_validate_json(json)
    except ValidationError:
        return None
    return None if quota.status == "Deleted" else quota
