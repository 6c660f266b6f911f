"""`steelyard account …` and `steelyard token`: accounts of the platform, for its administrators."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.connection import PlatformOptions
from steelyard.cli.option_groups import with_options

if TYPE_CHECKING:
    from steelyard.client import Client
    from steelyard_schema.account import Account

NameArgument = Annotated[str, typer.Argument(help="Id or name of the account.")]
ResourcesOption = Annotated[
    str, typer.Option(help="Permitted resources, separated by commas, such as datasets,models; * is all.")
]
FunctionsOption = Annotated[
    str, typer.Option(help="Permitted functions, separated by commas, such as get,query; * is all.")
]
AccountsOption = Annotated[
    str | None,
    typer.Option(
        help="Accounts whose entities may be used, separated by commas. Default: the account itself."
    ),
]

account = typer.Typer(
    help="Manage accounts: who may use the platform, and for what.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@account.command("create")
@with_options
def create(
    name: Annotated[str, typer.Argument(help="Name of the account; no other account may have it.")],
    resources: ResourcesOption = "*",
    functions: FunctionsOption = "*",
    accounts: AccountsOption = None,
    *,
    platform: PlatformOptions,
) -> None:
    """Create an account. By default it may do everything with its own entities.

    `steelyard token NAME` then makes a token for it.
    """
    with platform.connect() as client:
        made = client.accounts.create(name)
        # A new account may do nothing: without permissions, no token of it would be of use.
        client.accounts.set_permissions(made.id or "", [_grant(made, resources, functions, accounts)])
    typer.echo(f"accounts/{made.id}")


@account.command("permit")
@with_options
def permit(
    name: NameArgument,
    resources: ResourcesOption = "*",
    functions: FunctionsOption = "*",
    accounts: AccountsOption = None,
    *,
    platform: PlatformOptions,
) -> None:
    """Set what an account's tokens may do at most. This replaces its earlier permissions."""
    with platform.connect() as client:
        owner = _account(client, name)
        client.accounts.set_permissions(owner.id or "", [_grant(owner, resources, functions, accounts)])
    typer.echo(f"accounts/{owner.id}")


@account.command("suspend")
@with_options
def suspend(name: NameArgument, *, platform: PlatformOptions) -> None:
    """Refuse all tokens of an account, from the next request on. Its running work goes on."""
    with platform.connect() as client:
        owner = _account(client, name)
        typer.echo(f"accounts/{owner.id} {client.accounts.suspend(owner.id or '').status}")


@account.command("reactivate")
@with_options
def reactivate(name: NameArgument, *, platform: PlatformOptions) -> None:
    """Accept the tokens of a suspended account again."""
    with platform.connect() as client:
        owner = _account(client, name)
        typer.echo(f"accounts/{owner.id} {client.accounts.reactivate(owner.id or '').status}")


@account.command("rotate-key")
@with_options
def rotate_key(*, platform: PlatformOptions) -> None:
    """Sign tokens with a new key from now on. Tokens of earlier keys stay valid until they expire."""
    with platform.connect() as client:
        typer.echo(f"signing key {client.accounts.rotate_signing_key()}")


@with_options
def token(
    account: NameArgument,
    resources: ResourcesOption = "*",
    functions: FunctionsOption = "*",
    accounts: AccountsOption = None,
    days: Annotated[
        int, typer.Option(min=1, max=36500, help="Number of days for which the token is valid.")
    ] = 30,
    *,
    platform: PlatformOptions,
) -> None:
    """Make a token for an account, and print it. It cannot be shown again."""
    from datetime import UTC, datetime, timedelta

    from steelyard.client import Forbidden
    from steelyard_common.errors import UsageError

    with platform.connect() as client:
        owner = _account(client, account)
        grant = _grant(owner, resources, functions, accounts)
        expires = datetime.now(UTC) + timedelta(days=days)
        try:
            typer.echo(client.accounts.create_token(owner.id or "", grants=[grant], expires=expires))
        # A token never exceeds the caller's own grants nor the account's: the message says which way is left.
        except Forbidden as error:
            raise UsageError(
                f"{error}. Ask for less with --resources, --functions, --accounts; or, as an administrator: "
                f"steelyard account permit {owner.name}"
            ) from error


def _account(client: "Client", text: str) -> "Account":
    from steelyard.cli.connection import one_id

    return client.accounts.get(one_id(client, "accounts", text))


def _grant(owner: "Account", resources: str, functions: str, accounts: str | None) -> dict[str, Any]:
    return {
        "resources": resources.split(","),
        "functions": functions.split(","),
        "accounts": (accounts or owner.name).split(","),
    }
