"""Handlers of an account's tokens."""

from starlette.responses import Response

from steelyard.accounts.database import TooManyKeys
from steelyard.accounts.grants import covers
from steelyard.api.accounts.loading import check_covered, load_account
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Forbidden, Invalid, NotFound
from steelyard.api.http.responses import list_response, model_response, value_response
from steelyard_schema.account import AccessGrant, APIKey
from steelyard_schema.requests import AccountTokenCreateRequest


async def create(context: RequestContext) -> Response:
    """The token, as a bare JSON string: it is shown this once and kept nowhere."""
    request = await context.body(AccountTokenCreateRequest)
    account = await load_account(context, "edit")
    if request.expires <= context.now:
        raise Invalid(f"expires: {request.expires.isoformat()} is past", field="expires")
    if not covers(account.auth.permissions, request.grants):
        permissions = "; ".join(map(_in_words, account.auth.permissions)) or "nothing yet"
        raise Forbidden(
            f"grants: are more than account {account.name} may, which is {permissions}; "
            f"PUT /v0/accounts/{account.id}/permissions sets that",
            field="grants",
        )
    check_covered(context, request.grants, "grants")
    subject = f"accounts/{account.id}"
    most = context.api.platform.settings.account_tokens
    try:
        token = await context.api.tokens.mint(
            account, subject, request.grants, request.expires, context.now, most=most
        )
    except TooManyKeys as error:
        raise Conflict(str(error)) from error
    return value_response(token)


async def query(context: RequestContext) -> Response:
    account = await load_account(context, "get")
    return list_response([_without_secret(key) for key in account.apiKeys])


async def get(context: RequestContext) -> Response:
    account = await load_account(context, "get")
    for key in account.apiKeys:
        if key.id == context.values["jti"]:
            return model_response(_without_secret(key))
    raise NotFound(f"jti: account {account.id} has no token {context.values['jti']}")


async def revoke(context: RequestContext) -> Response:
    """Null; the token that the path names, or else every token, is no longer valid."""
    account = await load_account(context, "edit")
    jti = context.values.get("jti")
    count = await context.api.accounts.revoke(account.id or "", jti)
    if jti is not None and count == 0:
        raise NotFound(f"jti: account {account.id} has no token {jti}")
    return value_response(None)


def _in_words(grant: AccessGrant) -> str:
    """Return a grant as `get,query of models of acme`."""
    owners = [*grant.accounts, *grant.entities]
    return f"{','.join(grant.functions)} of {','.join(grant.resources)} of {','.join(owners)}"


def _without_secret(key: APIKey) -> APIKey:
    return key.model_copy(update={"secret": None})
