"""`steelyard quota …`: limits on what accounts may use, for administrators."""

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import OutputOption, PlatformOptions
from steelyard.cli.option_groups import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard_schema.quota import StoredQuota

PrincipalArgument = Annotated[
    str, typer.Argument(help="Whose quota: __global__ for all together, or accounts/<account>.")
]
ResourceArgument = Annotated[
    str,
    typer.Argument(
        help="The counted quantity, such as workflows.dyff.io/admitted, cpu or evaluations.dyff.io/created."
    ),
]

quota = typer.Typer(
    help="Set, list and delete quotas. They say how much may be used, at once or within a time.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@quota.command("set")
@with_options
def set_(
    principal: PrincipalArgument,
    resource: ResourceArgument,
    limit: Annotated[str, typer.Argument(help="Whole number or Kubernetes quantity, or Unlimited.")],
    within: Annotated[
        str | None, typer.Option(help="Makes it a rate: so much within this time, such as 10m, 1h or 7d.")
    ] = None,
    epoch: Annotated[
        datetime | None,
        typer.Option(help="Beginning of a cycle of the rate, in UTC. Without it the time slides."),
    ] = None,
    *,
    platform: PlatformOptions,
) -> None:
    """Set the limit of a quota, in place of the platform's setting. Work that waits for it continues at once."""
    from datetime import UTC

    duration = None if within is None else _span(within)
    start = None if epoch is None else epoch.replace(tzinfo=UTC)
    with platform.connect() as client:
        made = client.quotas.set(principal, resource, limit, duration=duration, epoch=start)
    typer.echo(f"quotas/{made.id}")


@quota.command("list")
@with_options
def list_(output: OutputOption = "table", *, platform: PlatformOptions) -> None:
    """List the quotas that are set. The settings of the platform are not among them."""
    from steelyard.cli.output import check_form

    check_form(output)
    with platform.connect() as client:
        quotas = [quota for quota in client.quotas.query() if quota.status != "Deleted"]
    typer.echo(_render(quotas, output))


@quota.command("delete")
@with_options
def delete(
    id: Annotated[str, typer.Argument(help="Id of the quota, as `steelyard quota list` prints it.")],
    *,
    platform: PlatformOptions,
) -> None:
    """Delete a quota: the platform's setting counts again."""
    with platform.connect() as client:
        typer.echo(
            f"quotas/{id.removeprefix('quotas/')} {client.quotas.delete(id.removeprefix('quotas/')).status}"
        )


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _span(text: str) -> timedelta:
    from steelyard_common.errors import UsageError

    match = re.fullmatch("([1-9][0-9]{0,8})([smhd])", text)
    if match is None:
        raise UsageError(f"--within {text}: should be a number and a unit, such as 90s, 10m, 1h or 7d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def span_text(span: timedelta) -> str:
    """Return a time as `--within` takes it, as a whole number of the greatest possible unit."""
    seconds = int(span.total_seconds())
    for unit, name in reversed(_UNITS.items()):
        length = int(timedelta(**{name: 1}).total_seconds())
        if seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _render(quotas: "Sequence[StoredQuota]", form: str) -> str:
    from steelyard.cli.output import columns, now, render

    if form != "table":
        content = [quota.dump() for quota in quotas]
        return render(content, form, "quotas", single=False, now=now())
    if not quotas:
        return "no quota is set: the settings of the platform count"
    rows = [("ID", "PRINCIPAL", "RESOURCE", "USED", "LIMIT", "WITHIN")]
    rows += [
        (
            quota.id,
            quota.principal,
            quota.resource,
            quota.usage or "-",
            quota.limit,
            "-" if quota.duration is None else span_text(quota.duration),
        )
        for quota in quotas
    ]
    return columns(rows)
