"""`steelyard account …` and `steelyard token`: who may use the platform, for its administrators."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.connection import PlatformOptions, on_platform

if TYPE_CHECKING:
    from steelyard.client import Client
    from steelyard.schema.account import Account

NameArgument = Annotated[str, typer.Argument(help="Id or name of the account.")]
ResourcesOption = Annotated[str, typer.Option(help="Comma-joined, such as datasets,models; * is any.")]
FunctionsOption = Annotated[str, typer.Option(help="Comma-joined, such as get,query; * is any.")]
AccountsOption = Annotated[
    str | None,
    typer.Option(help="Accounts whose entities are meant; by default the account's own name."),
]

account = typer.Typer(help="Who may use the platform.", no_args_is_help=True, rich_markup_mode=None)


@account.command("create")
@on_platform
def create(
    name: Annotated[str, typer.Argument(help="Its name, which no other account has.")],
    resources: ResourcesOption = "*",
    functions: FunctionsOption = "*",
    accounts: AccountsOption = None,
    *,
    platform: PlatformOptions,
) -> None:
    """Make an account that may do everything with entities of its own, or what the options say.

    `steelyard token NAME` then makes a token for it.
    """
    with platform.connect() as client:
        made = client.accounts.create(name)
        client.accounts.set_permissions(made.id or "", [_grant(made, resources, functions, accounts)])
    typer.echo(f"accounts/{made.id}")


@account.command("permit")
@on_platform
def permit(
    name: NameArgument,
    resources: ResourcesOption = "*",
    functions: FunctionsOption = "*",
    accounts: AccountsOption = None,
    *,
    platform: PlatformOptions,
) -> None:
    """Say what an account's tokens may do at most, in place of what was said before."""
    with platform.connect() as client:
        owner = _account(client, name)
        client.accounts.set_permissions(owner.id or "", [_grant(owner, resources, functions, accounts)])
    typer.echo(f"accounts/{owner.id}")


@account.command("suspend")
@on_platform
def suspend(name: NameArgument, *, platform: PlatformOptions) -> None:
    """Let none of its tokens count, from the next request on; what runs for it goes on."""
    with platform.connect() as client:
        owner = _account(client, name)
        typer.echo(f"accounts/{owner.id} {client.accounts.suspend(owner.id or '').status}")


@account.command("reactivate")
@on_platform
def reactivate(name: NameArgument, *, platform: PlatformOptions) -> None:
    """Let the tokens of a suspended account count again."""
    with platform.connect() as client:
        owner = _account(client, name)
        typer.echo(f"accounts/{owner.id} {client.accounts.reactivate(owner.id or '').status}")


@account.command("rotate-key")
@on_platform
def rotate_key(*, platform: PlatformOptions) -> None:
    """Sign tokens with a new key from now on. Tokens of the keys before stay good until they expire."""
    with platform.connect() as client:
        typer.echo(f"signing key {client.accounts.rotate_signing_key()}")


@on_platform
def token(
    account: NameArgument,
    resources: ResourcesOption = "*",
    functions: FunctionsOption = "*",
    accounts: AccountsOption = None,
    days: Annotated[int, typer.Option(min=1, max=36500, help="How long it is good.")] = 30,
    *,
    platform: PlatformOptions,
) -> None:
    """Make a token for an account. It is printed, this once."""
    from datetime import UTC, datetime, timedelta

    from steelyard.client import Forbidden
    from steelyard.errors import UsageError

    with platform.connect() as client:
        owner = _account(client, account)
        grant = _grant(owner, resources, functions, accounts)
        expires = datetime.now(UTC) + timedelta(days=days)
        try:
            typer.echo(client.accounts.create_token(owner.id or "", grants=[grant], expires=expires))
        except Forbidden as error:
            raise UsageError(
                f"{error}. Ask for less with --resources, --functions, --accounts; or, as an administrator: "
                f"steelyard account permit {owner.name}"
            ) from error


def _account(client: "Client", text: str) -> "Account":
    from steelyard.cli.connection import one_id

    return client.accounts.get(one_id(client.accounts, text))


def _grant(owner: "Account", resources: str, functions: str, accounts: str | None) -> dict[str, Any]:
    return {
        "resources": resources.split(","),
        "functions": functions.split(","),
        "accounts": (accounts or owner.name).split(","),
    }
