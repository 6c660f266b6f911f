"""Cases of the published client's methods about quotas."""

import warnings
from typing import Any

from tests.platform_api.published import Laboratory

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dyff.schema import requests

ADMITTED = "workflows.dyff.io/admitted"


def quotas(lab: Laboratory) -> None:
    """Call every method of the group."""
    api: Any = lab.api.quotas
    principal = f"accounts/{lab.make('UseCase')}"
    request = requests.QuotaCreateRequest(principal=principal, resource=ADMITTED, flavor="Total", limit="1")
    made = api.create(request)
    assert (made.id, made.limit, made.status) == (request.primary_key(), "1", "Ready")
    raised = api.create(request.model_copy(update={"limit": "Unlimited"}))
    assert (raised.id, raised.limit) == (made.id, "Unlimited")
    assert api.get(made.id).limit == "Unlimited"
    assert [quota.id for quota in api.query(principal=principal, flavor="Total")] == [made.id]
    assert api.query(principal=principal, flavor="Rate") == []
    api.label(made.id, {"team": "blue"})
    for access in ("public", "preview", "private"):
        api.publish(made.id, access)
    assert api.delete(made.id).status == "Deleted"


QUOTAS = tuple(f"quotas.{name}" for name in ("create", "get", "query", "label", "publish", "delete"))
