"""The rights that a challenge lends to what runs for its submissions, in the account of the task alone."""

from collections.abc import Sequence
from dataclasses import replace

from steelyard.api.challenges.tasks import CREATED, USED
from steelyard.api.http.context import RequestContext
from steelyard_schema.account import AccessGrant, APIFunction


def with_lent_rights(context: RequestContext, account: str) -> RequestContext:
    """Return the request with the rights of the task's runs, which `challenges/tasks.py` has checked."""
    principal = context.access.principal
    assert principal is not None
    lent = (
        _grant(USED, ["consume"], account),
        _grant(tuple(CREATED.values()), ["create", "terminate"], account),
    )
    richer = replace(principal, grants=(*principal.grants, *lent), _scopes={})
    return replace(context, access=replace(context.access, principal=richer))


def _grant(resources: Sequence[str], functions: Sequence[APIFunction], account: str) -> AccessGrant:
    return AccessGrant.parse(
        {"resources": list(resources), "functions": list(functions), "accounts": [account]}
    )
