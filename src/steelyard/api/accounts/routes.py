"""Routes of accounts, their permissions and tokens."""

from collections.abc import Iterator

from starlette.responses import Response

from steelyard.api.accounts import accounts, secrets, tokens, webhooks
from steelyard.api.accounts.loading import check_covered, load_account
from steelyard.api.http.access import Grant
from steelyard.api.http.context import RequestContext
from steelyard.api.http.responses import list_response
from steelyard.api.http.routing import Parameter, Route
from steelyard_schema.account import AccessGrant, Account, APIKey
from steelyard_schema.answers import Status
from steelyard_schema.requests import (
    AccountCreateRequest,
    AccountPermissionsSetRequest,
    AccountTokenCreateRequest,
    LabelsEditRequest,
    SecretSetRequest,
    WebhookCreateRequest,
)
from steelyard_schema.secrets import Secret
from steelyard_schema.webhook import Webhook, WebhookAndSecret

_FILTERS = (
    Parameter("name", "Only with this name."),
    Parameter("labels", "JSON: an object of labels that the account has."),
)


def account_routes() -> Iterator[Route]:
    path, one = "/v0/accounts", "/v0/accounts/{id}"
    create, edit, get = Grant("accounts", "create"), Grant("accounts", "edit"), Grant("accounts", "get")
    yield Route("POST", path, create, accounts.create, "Create: Account", AccountCreateRequest, Account)
    yield Route(
        "GET", path, Grant("accounts", "query"), accounts.query, "Query", None, list[Account], _FILTERS
    )
    yield Route("GET", one, get, accounts.get, "Get", None, Account)
    yield Route("PUT", f"{one}/delete", Grant("accounts", "delete"), accounts.delete, "Delete", None, Status)
    yield Route("PUT", f"{one}/suspend", edit, accounts.suspend, "Suspend", None, Status)
    yield Route("PUT", f"{one}/reactivate", edit, accounts.reactivate, "Reactivate", None, Status)
    rotate = accounts.rotate_signing_key
    yield Route("POST", f"{path}/signing-keys", create, rotate, "Create: signing key", None, str)
    yield Route("PATCH", f"{one}/labels", edit, accounts.label, "Edit labels", LabelsEditRequest)
    granted, request = f"{one}/permissions", AccountPermissionsSetRequest
    yield Route("GET", granted, get, get_permissions, "Permissions", None, list[AccessGrant])
    yield Route("PUT", granted, edit, replace_permissions, "Set permissions", request, list[AccessGrant])
    yield from _token_routes(f"{one}/tokens")
    yield from _secret_routes(f"{one}/secrets")
    yield from _webhook_routes(f"{one}/webhooks")


def _token_routes(path: str) -> Iterator[Route]:
    edit, get = Grant("accounts", "edit"), Grant("accounts", "get")
    one = f"{path}/{{jti}}"
    yield Route("POST", path, edit, tokens.create, "Create: token", AccountTokenCreateRequest, str)
    yield Route("GET", path, get, tokens.query, "Tokens", None, list[APIKey])
    yield Route("DELETE", path, edit, tokens.revoke, "Revoke all tokens")
    yield Route("GET", one, get, tokens.get, "One token", None, APIKey)
    yield Route("DELETE", one, edit, tokens.revoke, "Revoke a token")


def _secret_routes(path: str) -> Iterator[Route]:
    """Yield the routes of secrets. There is none that answers a value."""
    edit, one = Grant("accounts", "edit"), f"{path}/{{name}}"
    yield Route(
        "GET", path, Grant("accounts", "get"), secrets.query, "Secrets", None, list[Secret], errors=(422,)
    )
    yield Route(
        "PUT",
        one,
        edit,
        secrets.replace,
        "Create or replace: secret",
        SecretSetRequest,
        Secret,
        errors=(409, 501),
    )
    yield Route("DELETE", one, edit, secrets.delete, "Delete a secret", errors=(422,))


def _webhook_routes(path: str) -> Iterator[Route]:
    edit, get = Grant("accounts", "edit"), Grant("accounts", "get")
    one, request = f"{path}/{{webhook}}", WebhookCreateRequest
    secret = WebhookAndSecret
    yield Route("POST", path, edit, webhooks.create, "Create: webhook", request, secret, errors=(409,))
    yield Route("GET", path, get, webhooks.query, "Webhooks", None, list[Webhook])
    yield Route("GET", one, get, webhooks.get, "One webhook", None, Webhook)
    yield Route("DELETE", one, edit, webhooks.delete, "Delete a webhook")
    yield Route("PUT", f"{one}/enable", edit, webhooks.enable, "Enable a webhook", None, Webhook)
    yield Route("POST", f"{one}/secret", edit, webhooks.rotate, "Next secret of a webhook", None, secret)
    yield Route(
        "POST", f"{one}/test", edit, webhooks.send_trial, "Send a test event", None, str, errors=(409,)
    )


async def get_permissions(context: RequestContext) -> Response:
    return list_response((await load_account(context, "get")).auth.permissions)


async def replace_permissions(context: RequestContext) -> Response:
    """The permissions after the change."""
    request = await context.body(AccountPermissionsSetRequest)
    account = await load_account(context, "edit")
    check_covered(context, request.permissions, "permissions")
    changed = await context.api.accounts.set_permissions(account.id or "", request.permissions)
    return list_response(changed.auth.permissions)
