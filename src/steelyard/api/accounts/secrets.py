"""Handlers of an account's secrets. No answer ever has a value: it goes in, and only the workflows get it."""

import re

from starlette.responses import Response

from steelyard.accounts.database import AccountDeleted, TooManySecrets
from steelyard.accounts.secrets import NoKeys
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Forbidden, Invalid, NotFound, NotImplementedYet
from steelyard.api.http.responses import list_response, model_response, value_response
from steelyard_schema.account import APIFunction
from steelyard_schema.kubernetes import LABEL_VALUE_PATTERN
from steelyard_schema.requests import SecretSetRequest
from steelyard_schema.secrets import SECRET_NAME_PATTERN


async def replace(context: RequestContext) -> Response:
    """The secret as it is shown: without its value."""
    account, name = _account(context, "edit"), _name(context)
    request = await context.body(SecretSetRequest)
    try:
        return model_response(await context.api.secrets.set(account, name, request.value, context.now))
    except AccountDeleted as error:
        raise Conflict(f"id: {error}") from error
    except TooManySecrets as error:
        raise Conflict(f"name: {error}", field="name") from error
    except NoKeys as error:
        raise NotImplementedYet(str(error)) from error


async def query(context: RequestContext) -> Response:
    """Names, times and fingerprints of the account's secrets."""
    return list_response(await context.api.secrets.list(_account(context, "get")))


async def delete(context: RequestContext) -> Response:
    """Null; workflows that need the secret wait from now on."""
    account, name = _account(context, "edit"), _name(context)
    if not await context.api.secrets.delete(account, name):
        raise NotFound(f"name: account {account} has no secret {name}")
    return value_response(None)


def _account(context: RequestContext, function: APIFunction) -> str:
    """Return the account of the path, as entities name it. Raises Invalid, NotFound, Forbidden.

    There need not be a record of it: an administrator may own entities under any account's name.
    """
    account = context.id
    allowed = context.access.allows("accounts", function, account, account)
    if not allowed and not context.access.allows("accounts", "get", account, account):
        raise NotFound(f"id: there is no account {account}")
    if not allowed:
        raise Forbidden(f"the token lacks accounts/{function} for account {account}")
    if not re.fullmatch(LABEL_VALUE_PATTERN, account):
        raise Invalid(
            f"id: {account!r} should be an account as entities name it: 1 to 63 letters, digits, - _ and ., with a "
            "letter or a digit at either end",
            field="id",
        )
    return account


def _name(context: RequestContext) -> str:
    name = context.values["name"]
    if not re.fullmatch(SECRET_NAME_PATTERN, name):
        raise Invalid(
            f"name: {name!r} should be 1 to 63 lower-case letters, digits and hyphens, without a hyphen at either end",
            field="name",
        )
    return name
