"""`steelyard secret …`: tokens, passwords and keys that workflows of an account need."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import OutputOption, PlatformOptions
from steelyard.cli.option_groups import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard_schema.secrets import Secret

SecretArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the secret: lower-case letters, digits, hyphens.")
]
AccountOption = Annotated[
    str, typer.Option("--account", metavar="ACCOUNT", help="Account of the secret, as entities name it.")
]

secret = typer.Typer(
    help="Set, list and delete secrets. They are tokens, passwords and keys that workflows of an account need.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@secret.command("set")
@with_options
def set_(
    name: SecretArgument,
    account: AccountOption,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", help="File with the value; - is standard input. Without it, the value is asked for."
        ),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option(
            metavar="HOST", help="The value is a password for this registry of images. Needs --username."
        ),
    ] = None,
    username: Annotated[str | None, typer.Option(help="User at the registry.")] = None,
    *,
    platform: PlatformOptions,
) -> None:
    """Make a secret or replace its value, which the next workflow uses.

    The value comes from a file, from standard input, or is asked for: it is never an argument, which other users of the
    machine would see. A line break at its end is left out. No command shows it again.
    """
    from steelyard_common.errors import UsageError

    if (registry is None) != (username is None):
        raise UsageError("--registry and --username: one is of no use without the other")
    value = _value(name, file)
    if registry is not None and username is not None:
        value = _docker_configuration(registry, username, value)
    with platform.connect() as client:
        made = client.secrets.set(account, name, value)
    typer.echo(f"secret {made.name} of {made.account}: fingerprint {made.fingerprint}")


@secret.command("list")
@with_options
def list_(account: AccountOption, output: OutputOption = "table", *, platform: PlatformOptions) -> None:
    """List the secrets of an account: names, times and fingerprints. Values are never shown."""
    from steelyard.cli.output import check_form

    check_form(output)
    with platform.connect() as client:
        secrets = client.secrets.list(account)
    typer.echo(_render(secrets, account, output))


@secret.command("delete")
@with_options
def delete(name: SecretArgument, account: AccountOption, *, platform: PlatformOptions) -> None:
    """Delete a secret. Workflows that need it wait from now on, until it is set again."""
    with platform.connect() as client:
        client.secrets.delete(account, name)
    typer.echo(f"secret {name} of {account} deleted")


def _value(name: str, file: Path | None) -> str:
    """Return the value: from the file, from standard input, or from a prompt that shows nothing."""
    from steelyard_common.errors import UsageError
    from steelyard_schema.secrets import VALUE_BYTES

    if file is None and sys.stdin.isatty():
        return str(typer.prompt(f"Value of {name}", hide_input=True, confirmation_prompt=True))
    most = VALUE_BYTES + 2  # a line break at the end is left out
    try:
        if file is None or str(file) == "-":
            data = sys.stdin.buffer.read(most + 1)
        else:
            with file.open("rb") as opened:
                data = opened.read(most + 1)
    except OSError as error:
        raise UsageError(f"--file {file}: {error.strerror}") from error
    if len(data) > most:  # first: what was read may end within a character
        raise UsageError(f"the value has more than {VALUE_BYTES} bytes")
    try:
        text = data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageError("--file: the value is not text in UTF-8") from None
    if not text:
        raise UsageError("the value is empty")
    return text


def _docker_configuration(registry: str, username: str, password: str) -> str:
    """Return the configuration with which Docker opens a registry, as Kubernetes takes it."""
    import base64
    import json

    credentials = base64.b64encode(f"{username}:{password}".encode()).decode()
    return json.dumps(
        {"auths": {registry: {"username": username, "password": password, "auth": credentials}}}
    )


def _render(secrets: "Sequence[Secret]", account: str, form: str) -> str:
    from steelyard.cli.output import columns, now, render

    if form != "table":
        content = [secret.dump() for secret in secrets]
        return render(content, form, "secrets", single=False, now=now())
    if not secrets:
        return f"account {account} has no secrets"
    rows = [("NAME", "FINGERPRINT", "CREATED", "UPDATED")]
    rows += [
        (
            secret.name,
            secret.fingerprint,
            f"{secret.created:%Y-%m-%d %H:%M}",
            f"{secret.updated:%Y-%m-%d %H:%M}",
        )
        for secret in secrets
    ]
    return columns(rows)
