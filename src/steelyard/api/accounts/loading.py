"""Loads the account that a path names, for a caller who may call the function for it."""

from collections.abc import Sequence

from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Forbidden, NotFound
from steelyard_schema.account import AccessGrant, Account, APIFunction


async def load_account(context: RequestContext, function: APIFunction) -> Account:
    """Return the account. Raises NotFound, also if the caller may not see it, and Forbidden."""
    id = context.id
    account = await context.api.accounts.get(id)
    allowed = context.access.allows("accounts", function, id, id)
    if account is None or not (allowed or context.access.allows("accounts", "get", id, id)):
        raise NotFound(f"id: there is no account {id}")
    if not allowed:
        raise Forbidden(f"the token lacks accounts/{function} for account {id}")
    return account


def check_covered(context: RequestContext, grants: Sequence[AccessGrant], field: str) -> None:
    """Raise Forbidden for grants that the caller's own token lacks: a caller may not grant more than it has."""
    if not context.access.covers(grants):
        raise Forbidden(f"{field}: are more than the token itself may", field=field)
