"""Handlers of accounts: create, get, query, delete, suspend; and the key that signs all tokens."""

from starlette.responses import Response

from steelyard.accounts.database import CreationRequest, KeyTaken, NameTaken, TooManyLabels
from steelyard.api.accounts.loading import load_account
from steelyard.api.entities.labels import check_reserved
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Forbidden, Invalid, key_taken
from steelyard.api.http.responses import list_response, model_response, value_response
from steelyard.views.parse import parse_labels
from steelyard.views.view import BadQuery
from steelyard_schema.answers import Status
from steelyard_schema.requests import AccountCreateRequest, LabelsEditRequest


async def create(context: RequestContext) -> Response:
    request = await context.body(AccountCreateRequest)
    if not context.access.everywhere("accounts", "create"):
        raise Forbidden("the token lacks accounts/create for all accounts")
    origin = context.command_origin()
    key = origin.idempotency_key
    request_key = None if key is None else CreationRequest(origin.actor, key, origin.digest)
    try:
        return model_response(
            await context.api.accounts.create(
                request.name, request.identity, context.now, request=request_key
            )
        )
    except NameTaken as error:
        raise Conflict(f"name: {request.name!r} is another account's", field="name") from error
    except KeyTaken as error:
        raise key_taken(key or "") from error


async def get(context: RequestContext) -> Response:
    return model_response(await load_account(context, "get"))


async def query(context: RequestContext) -> Response:
    """The accounts that the token may see."""
    name = context.query.get("name")
    try:
        labels = parse_labels(context.query.get("labels") or None)
    except BadQuery as error:
        raise Invalid(str(error), field=error.field) from error
    accounts = [
        account
        for account in await context.api.accounts.list()
        if context.access.allows("accounts", "query", account.id or "", account.id or "")
        and (not name or account.name == name)
        and account.labels.items() >= labels.items()
    ]
    return list_response(accounts)


async def delete(context: RequestContext) -> Response:
    """The status; tokens of the account count no more."""
    account = await load_account(context, "delete")
    await context.api.accounts.delete(account.id or "", context.now)
    return model_response(Status(status="Deleted", reason="DeleteCommand"))


async def suspend(context: RequestContext) -> Response:
    """The status; tokens of the account do not count until it is reactivated. What it owns goes on."""
    return await _change_status(context, "Suspended", "SuspendCommand")


async def reactivate(context: RequestContext) -> Response:
    """The status; tokens of the account count again."""
    return await _change_status(context, "Active", "ReactivateCommand")


async def rotate_signing_key(context: RequestContext) -> Response:
    """Id of a new key that signs tokens from now on; tokens of earlier keys count until they expire."""
    if not context.access.administrator:
        raise Forbidden("signing-keys: takes an administrator's grant")
    return value_response(await context.api.tokens.rotate(context.now))


async def label(context: RequestContext) -> Response:
    """All labels after the edit."""
    request = await context.edit(LabelsEditRequest)
    account = await load_account(context, "edit")
    check_reserved(request)
    if account.status == "Deleted":
        raise Conflict(f"status: account {account.name} is Deleted")
    try:
        account = await context.api.accounts.set_labels(account.id or "", request.labels)
    except TooManyLabels as error:
        raise Invalid(str(error), field="labels") from error
    return value_response({"labels": account.labels})


async def _change_status(context: RequestContext, status: str, reason: str) -> Response:
    account = await load_account(context, "edit")
    if account.status == "Deleted":
        raise Conflict(f"status: account {account.name} is Deleted")
    if account.status != status:
        account = await context.api.accounts.set_status(account.id or "", status, reason, context.now)
    return model_response(Status(status=account.status, reason=account.reason))
