"""Accounts, what they may do, and their tokens.

Nobody hands on more than they have: permissions that are set, and grants of a token, have to be covered by the
caller's own, and a token's also by what its account may.
"""

from collections.abc import Sequence

from starlette.responses import Response

from steelyard.accounts.database import Asked, KeyTaken, NameTaken
from steelyard.accounts.grants import covers
from steelyard.api.http.context import Call, answer, json_of, json_response
from steelyard.api.http.errors import Conflict, Forbidden, Invalid, NotFound, NotImplementedYet, key_taken
from steelyard.schema.account import AccessGrant, Account, APIFunction, APIKey
from steelyard.schema.answers import Status
from steelyard.schema.requests import (
    AccountCreateRequest,
    AccountPermissionsSetRequest,
    AccountTokenCreateRequest,
)


async def create(call: Call) -> Response:
    request = await call.body(AccountCreateRequest)
    if not call.access.everywhere("accounts", "create"):
        raise Forbidden("the token lacks accounts/create for all accounts")
    asker = call.asker()
    key = asker.idempotency_key
    asked = None if key is None else Asked(asker.actor, key, asker.digest)
    try:
        return answer(await call.api.accounts.create(request.name, request.identity, call.now, asked=asked))
    except NameTaken as error:
        raise Conflict(f"name: {request.name!r} is another account's", field="name") from error
    except KeyTaken as error:
        raise key_taken(key or "") from error


async def get(call: Call) -> Response:
    return answer(await _account(call, "get"))


async def query(call: Call) -> Response:
    name = call.query.get("name")
    found = [
        account
        for account in await call.api.accounts.list()
        if call.access.allows("accounts", "query", account.id or "", account.id or "")
        and (not name or account.name == name)
    ]
    return _list(found)


async def delete(call: Call) -> Response:
    account = await _account(call, "delete")
    await call.api.accounts.delete(account.id or "", call.now)
    return answer(Status(status="Deleted", reason="DeleteCommand"))


async def suspend(call: Call) -> Response:
    """Its tokens count no more, until it is reactivated; what it owns stays and goes on."""
    return await _change_status(call, "Suspended", "SuspendCommand")


async def reactivate(call: Call) -> Response:
    """Its tokens count again."""
    return await _change_status(call, "Active", "ReactivateCommand")


async def rotate(call: Call) -> Response:
    """Id of a new key that signs tokens from now on; those of earlier keys stay good until they expire."""
    if not call.access.administrator:
        raise Forbidden("signing-keys: takes an administrator's grant")
    return json_of(await call.api.tokens.rotate(call.now))


async def label(call: Call) -> Response:
    """The published client has it, and the published account has no labels."""
    account = await _account(call, "edit")
    raise NotImplementedYet(f"labels: an account has none, and so has {account.id}")


async def permissions(call: Call) -> Response:
    return _list((await _account(call, "get")).auth.permissions)


async def set_permissions(call: Call) -> Response:
    request = await call.body(AccountPermissionsSetRequest)
    account = await _account(call, "edit")
    _check_own(call, request.permissions, "permissions")
    changed = await call.api.accounts.set_permissions(account.id or "", request.permissions)
    return _list(changed.auth.permissions)


async def create_token(call: Call) -> Response:
    """The token, as a bare JSON string: it is shown this once and kept nowhere."""
    request = await call.body(AccountTokenCreateRequest)
    account = await _account(call, "edit")
    if request.expires <= call.now:
        raise Invalid(f"expires: {request.expires.isoformat()} is past", field="expires")
    if not covers(account.auth.permissions, request.grants):
        may = "; ".join(map(_in_words, account.auth.permissions)) or "nothing yet"
        raise Forbidden(
            f"grants: are more than account {account.name} may, which is {may}; "
            f"PUT /v0/accounts/{account.id}/permissions sets that",
            field="grants",
        )
    _check_own(call, request.grants, "grants")
    subject = f"accounts/{account.id}"
    token = await call.api.tokens.mint(account, subject, request.grants, request.expires, call.now)
    return json_of(token)


async def tokens(call: Call) -> Response:
    account = await _account(call, "get")
    return _list([_shown(key) for key in account.apiKeys])


async def token(call: Call) -> Response:
    account = await _account(call, "get")
    for key in account.apiKeys:
        if key.id == call.values["jti"]:
            return answer(_shown(key))
    raise NotFound(f"jti: account {account.id} has no token {call.values['jti']}")


async def revoke(call: Call) -> Response:
    account = await _account(call, "edit")
    jti = call.values.get("jti")
    count = await call.api.accounts.revoke(account.id or "", jti)
    if jti is not None and count == 0:
        raise NotFound(f"jti: account {account.id} has no token {jti}")
    return json_of(None)


async def _change_status(call: Call, status: str, reason: str) -> Response:
    account = await _account(call, "edit")
    if account.status == "Deleted":
        raise Conflict(f"status: account {account.name} is Deleted")
    if account.status != status:
        account = await call.api.accounts.set_status(account.id or "", status, reason, call.now)
    return answer(Status(status=account.status, reason=account.reason))


async def _account(call: Call, function: APIFunction) -> Account:
    """Raises NotFound, also where the caller may not see it, and Forbidden."""
    id = call.id
    account = await call.api.accounts.get(id)
    if account is None or not any(call.access.allows("accounts", each, id, id) for each in (function, "get")):
        raise NotFound(f"id: there is no account {id}")
    if not call.access.allows("accounts", function, id, id):
        raise Forbidden(f"the token lacks accounts/{function} for account {id}")
    return account


def _check_own(call: Call, grants: Sequence[AccessGrant], field: str) -> None:
    if not call.access.covers(grants):
        raise Forbidden(f"{field}: are more than the token itself may", field=field)


def _in_words(grant: AccessGrant) -> str:
    """`get,query of models of acme`."""
    whose = [*grant.accounts, *grant.entities]
    return f"{','.join(grant.functions)} of {','.join(grant.resources)} of {','.join(whose)}"


def _shown(key: APIKey) -> APIKey:
    return key.model_copy(update={"secret": None})


def _list(values: Sequence[Account | AccessGrant | APIKey]) -> Response:
    return json_response(b"[%s]" % b",".join(each.dump_json().encode() for each in values))
