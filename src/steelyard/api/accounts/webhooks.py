"""Handlers of an account's webhooks. A secret is answered when it is made, and never again."""

from starlette.responses import Response

from steelyard.accounts.database import AccountDeleted
from steelyard.accounts.webhooks.events import find_source, trial_event
from steelyard.accounts.webhooks.registration import Registration, format_secret, signing_key
from steelyard.accounts.webhooks.webhooks import TooManyWebhooks, Webhooks
from steelyard.api.accounts.loading import load_account
from steelyard.api.http.context import RequestContext
from steelyard.api.http.errors import Conflict, Invalid, NotFound
from steelyard.api.http.responses import list_response, model_response, value_response
from steelyard.egress.policy import check_url
from steelyard_schema.egress import EgressRefused
from steelyard_schema.requests import WebhookCreateRequest
from steelyard_schema.webhook import Webhook, WebhookAndSecret


async def create(context: RequestContext) -> Response:
    """The webhook and its secret, which no other answer has."""
    request = await context.body(WebhookCreateRequest)
    account = await load_account(context, "edit")
    if account.status == "Deleted":
        raise Conflict(f"status: account {account.name} is Deleted")
    platform = context.api.platform
    try:
        check_url(platform.egress.policy("webhooks"), request.url, "url")
    except EgressRefused as error:
        raise Invalid(str(error), field="url") from error
    principal = context.access.principal
    registration = Registration(
        request.url,
        context.now.timestamp(),
        tuple(principal.grants) if principal else (),
        frozenset(request.kinds),
        frozenset(request.statuses),
    )
    id, most = platform.new_id(), platform.webhooks.per_account
    try:
        webhook = await _webhooks(context).add(id, account.id or "", registration, most)
    except AccountDeleted as error:
        raise Conflict(f"id: {error}") from error
    except TooManyWebhooks as error:
        raise Conflict(f"url: {error}; DELETE /v0/accounts/{account.id}/webhooks/ID removes one") from error
    return await _with_secret(context, webhook, 1)


async def query(context: RequestContext) -> Response:
    """The account's webhooks, oldest first, without their secrets."""
    account = await load_account(context, "get")
    return list_response(await _webhooks(context).list(account.id or ""))


async def get(context: RequestContext) -> Response:
    """The webhook: whether it works, and what waits for it."""
    account = await load_account(context, "get")
    return model_response(await _webhook(context, account.id or ""))


async def delete(context: RequestContext) -> Response:
    """Null; what waits for the webhook is dropped."""
    account = await load_account(context, "edit")
    if not await _webhooks(context).remove(account.id or "", context.values["webhook"]):
        raise _missing(context)
    return value_response(None)


async def enable(context: RequestContext) -> Response:
    """The webhook; what waits for it is sent from now on, a disabled one is active again."""
    account = await load_account(context, "edit")
    if not await _webhooks(context).enable(account.id or "", context.values["webhook"]):
        raise _missing(context)
    return model_response(await _webhook(context, account.id or ""))


async def rotate(context: RequestContext) -> Response:
    """The webhook and its next secret; for a day its events are signed with the last one as well."""
    account = await load_account(context, "edit")
    id, webhook = account.id or "", context.values["webhook"]
    generation = await _webhooks(context).rotate(id, webhook, context.now.timestamp())
    if generation is None:
        raise _missing(context)
    return await _with_secret(context, await _webhook(context, id), generation)


async def send_trial(context: RequestContext) -> Response:
    """The id of an event that is sent to the webhook now, to try its receiver."""
    account = await load_account(context, "edit")
    if account.status != "Active":
        raise Conflict(f"status: account {account.name} is {account.status}, and is sent nothing")
    webhook = await _webhook(context, account.id or "")
    if webhook.status != "Active":
        raise Conflict(f"webhook: {webhook.id} is {webhook.status}; enable it first")
    platform = context.api.platform
    if webhook.waiting >= platform.webhooks.backlog:
        raise Conflict(f"webhook: {webhook.waiting} events wait for {webhook.id} already, the most that may")
    source = find_source(platform.log.id, platform.settings.public_url)
    event = trial_event(platform.new_id(), webhook.id, webhook.account, source, context.now)
    await _webhooks(context).add_trial(webhook.id, event)
    return value_response(event.id)


async def _webhook(context: RequestContext, account: str) -> Webhook:
    webhook = await _webhooks(context).get(account, context.values["webhook"])
    if webhook is None:
        raise _missing(context)
    return webhook


async def _with_secret(context: RequestContext, webhook: Webhook, generation: int) -> Response:
    keys = await context.api.accounts.signing_keys()
    # The caller's token was signed with a key, so there is one; the first is never removed.
    pem, _ = next(iter(keys.values()))
    secret = format_secret(signing_key(pem, webhook.id, generation))
    response = model_response(WebhookAndSecret(webhook=webhook, secret=secret))
    response.headers["Cache-Control"] = "no-store"
    return response


def _webhooks(context: RequestContext) -> Webhooks:
    return context.api.platform.accounts_database.webhooks


def _missing(context: RequestContext) -> NotFound:
    return NotFound(f"webhook: account {context.id} has no webhook {context.values['webhook']}")
