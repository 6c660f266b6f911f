"""`steelyard webhook …`: addresses of an account that are notified when an entity has ended."""

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import OutputOption, PlatformOptions
from steelyard.cli.option_groups import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.client import Client
    from steelyard_schema.webhook import Webhook, WebhookAndSecret

AccountArgument = Annotated[str, typer.Argument(help="Id or name of the account.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the webhook, or its beginning.")]

webhook = typer.Typer(
    help="Register addresses that are notified when entities end. The list shows what they answer.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@webhook.command("create")
@with_options
def create(
    account: AccountArgument,
    url: Annotated[str, typer.Argument(metavar="URL", help="Address that events are sent to.")],
    kinds: Annotated[
        str,
        typer.Option(help="Kinds of entities, separated by commas, such as Evaluation,Report. Default: all."),
    ] = "",
    statuses: Annotated[
        str,
        typer.Option(help="Statuses, separated by commas, such as Complete,Failed. Default: all that end."),
    ] = "",
    *,
    platform: PlatformOptions,
) -> None:
    """Register an address, and print the secret of its events.

    The events are signed with it. It cannot be shown again.

    The platform's setting egress.webhooks has to allow the host.
    """
    with platform.connect() as client:
        made = client.webhooks.create(
            _account(client, account), url, kinds=_names(kinds), statuses=_names(statuses)
        )
    _show_secret(made)


@webhook.command("list")
@with_options
def list_(account: AccountArgument, output: OutputOption = "table", *, platform: PlatformOptions) -> None:
    """List the webhooks of an account.

    The list says whether they answer, and how much was sent and waits.
    """
    from steelyard.cli.output import check_form

    check_form(output)
    with platform.connect() as client:
        webhooks = client.webhooks.list(_account(client, account))
    typer.echo(_render(webhooks, output))


@webhook.command("delete")
@with_options
def delete(account: AccountArgument, id: IdArgument, *, platform: PlatformOptions) -> None:
    """Delete a webhook. What waits for it is dropped."""
    with platform.connect() as client:
        owner = _account(client, account)
        chosen = _one(client, owner, id)
        client.webhooks.delete(owner, chosen)
    typer.echo(f"webhook {chosen} deleted")


@webhook.command("enable")
@with_options
def enable(account: AccountArgument, id: IdArgument, *, platform: PlatformOptions) -> None:
    """Send again to a webhook that was disabled.

    A webhook that rests after a failure gets its events at once.
    """
    with platform.connect() as client:
        owner = _account(client, account)
        enabled = client.webhooks.enable(owner, _one(client, owner, id))
    typer.echo(f"webhook {enabled.id} {enabled.status}, {enabled.waiting} waiting")


@webhook.command("rotate-secret")
@with_options
def rotate_secret(account: AccountArgument, id: IdArgument, *, platform: PlatformOptions) -> None:
    """Print the next secret of a webhook. For a day, events are signed with the last one as well."""
    with platform.connect() as client:
        owner = _account(client, account)
        _show_secret(client.webhooks.rotate_secret(owner, _one(client, owner, id)))


@webhook.command("test")
@with_options
def test(account: AccountArgument, id: IdArgument, *, platform: PlatformOptions) -> None:
    """Send a test event, of the type steelyard.webhook.test. `steelyard webhook list` shows what came of it."""
    with platform.connect() as client:
        owner = _account(client, account)
        event = client.webhooks.test(owner, _one(client, owner, id))
    typer.echo(f"event {event} is on its way")


def _account(client: "Client", text: str) -> str:
    from steelyard.cli.connection import one_id

    return one_id(client, "accounts", text)


def _one(client: "Client", account: str, text: str) -> str:
    """Return the id of the webhook that an id or its beginning names. Raises UsageError."""
    from steelyard_common.errors import UsageError

    ids = [webhook.id for webhook in client.webhooks.list(account) if webhook.id.startswith(text)]
    if len(ids) != 1:
        fault = f"{len(ids)} webhooks begin so" if ids else "the account has no such webhook"
        raise UsageError(f"webhook {text}: {fault}; `steelyard webhook list` shows all")
    return ids[0]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _show_secret(created: "WebhookAndSecret") -> None:
    typer.echo(f"webhook {created.webhook.id}\nsecret  {created.secret}")
    typer.echo("The secret is shown this once: give it to the receiver.", err=True)


def _render(webhooks: "Sequence[Webhook]", form: str) -> str:
    from steelyard.cli.output import columns, now, render

    if form != "table":
        content = [webhook.dump() for webhook in webhooks]
        return render(content, form, "webhooks", single=False, now=now())
    if not webhooks:
        return "the account has no webhook"
    rows = [("ID", "STATUS", "DELIVERED", "WAITING", "DROPPED", "URL", "REASON")]
    rows += [
        (
            webhook.id,
            webhook.status,
            str(webhook.delivered),
            str(webhook.waiting),
            str(webhook.dropped),
            webhook.url,
            f"{webhook.reason}: {webhook.message}" if webhook.reason else "-",
        )
        for webhook in webhooks
    ]
    return columns(rows)
