"""`steelyard quarantine …`: what the platform's services have put aside, for its administrators."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.connection import OutputOption, PlatformOptions, on_platform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.schema.answers import QuarantinedEntity

IdArgument = Annotated[str, typer.Argument(help="The entity's id, or the beginning of one.")]
ConsumerOption = Annotated[
    str | None,
    typer.Option(
        help="Only what this one has put aside, such as commands or view-sink; by default all of it."
    ),
]

quarantine = typer.Typer(
    help="Entities that were put aside, since a service could not take a message about them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@quarantine.command("list")
@on_platform
def list_(output: OutputOption = "table", *, platform: PlatformOptions) -> None:
    """Print what is in quarantine, the longest first: who has put it aside, why, and how many messages wait."""
    from steelyard.cli.output import check_form

    check_form(output)
    with platform.connect() as client:
        typer.echo(_rendered(client.quarantine.list(), output))


@quarantine.command("show")
@on_platform
def show(
    id: IdArgument,
    consumer: ConsumerOption = None,
    output: OutputOption = "yaml",
    *,
    platform: PlatformOptions,
) -> None:
    """Print why an entity is in quarantine, and each message that waits; the first is the one that failed."""
    from steelyard.cli.output import check_form

    check_form(output)
    with platform.connect() as client:
        found = client.quarantine.get(_whole(client, id), consumer)
        typer.echo(_rendered(found, output))


@quarantine.command("release")
@on_platform
def release(id: IdArgument, consumer: ConsumerOption = None, *, platform: PlatformOptions) -> None:
    """Try once more what failed, then work off what waits, in order.

    For after an upgrade that mends the fault. What fails again goes back, with everything behind it: nothing is lost.
    """
    with platform.connect() as client:
        typer.echo(client.quarantine.release(_whole(client, id), consumer).message)


@quarantine.command("drop")
@on_platform
def drop(id: IdArgument, consumer: ConsumerOption = None, *, platform: PlatformOptions) -> None:
    """Leave out what failed, and work off what waits behind it, in order.

    The message stays among the dead letters of the log, and is not tried again.
    """
    with platform.connect() as client:
        typer.echo(client.quarantine.drop(_whole(client, id), consumer).message)


def _whole(client: Any, text: str) -> str:
    """The id that begins so. Raises UsageError where several in quarantine do."""
    from steelyard.errors import UsageError

    found = sorted({entity.id for entity in client.quarantine.list() if entity.id.startswith(text)})
    if len(found) > 1 and text not in found:
        raise UsageError(f"{text}: {len(found)} entities in quarantine begin so: {', '.join(found)}")
    return text if text in found or not found else str(found[0])


def _rendered(found: "Sequence[QuarantinedEntity]", form: str) -> str:
    import json

    content = [entity.dump() for entity in found]
    match form:
        case "name":
            return "\n".join(dict.fromkeys(entity.id for entity in found))
        case "json":
            return json.dumps(content, indent=2)
        case "yaml":
            import yaml

            return str(yaml.safe_dump(content, sort_keys=False)).rstrip()
    return _table(found)


def _table(found: "Sequence[QuarantinedEntity]") -> str:
    if not found:
        return "nothing is in quarantine"
    rows = [("ID", "CONSUMER", "WAITING", "SINCE", "REASON")]
    rows += [
        (
            entity.id,
            entity.consumer,
            str(entity.waiting),
            entity.since.isoformat(timespec="seconds"),
            entity.reason,
        )
        for entity in found
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row[:4], widths, strict=True)), row[4]])
        for row in rows
    )
