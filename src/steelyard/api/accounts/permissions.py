"""Handlers of an account's permissions: the most that its tokens may be granted."""

from starlette.responses import Response

from steelyard.api.accounts.loading import check_covered, load_account
from steelyard.api.http.context import RequestContext
from steelyard.api.http.responses import list_response
from steelyard_schema.requests import AccountPermissionsSetRequest


async def get(context: RequestContext) -> Response:
    return list_response((await load_account(context, "get")).auth.permissions)


async def replace(context: RequestContext) -> Response:
    """The permissions after the change."""
    request = await context.body(AccountPermissionsSetRequest)
    account = await load_account(context, "edit")
    check_covered(context, request.permissions, "permissions")
    changed = await context.api.accounts.set_permissions(account.id or "", request.permissions)
    return list_response(changed.auth.permissions)
