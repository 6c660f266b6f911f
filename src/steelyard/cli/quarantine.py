"""`steelyard quarantine …`: entities that the platform's services have put in quarantine, for administrators."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.connection import OutputOption, PlatformOptions
from steelyard.cli.option_groups import with_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard_schema.answers import QuarantinedEntity

IdArgument = Annotated[str, typer.Argument(help="The entity's id, or the beginning of one.")]
ConsumerOption = Annotated[
    str | None,
    typer.Option(
        help="Only what this consumer has put in quarantine, such as commands or view-sink; by default all."
    ),
]

quarantine = typer.Typer(
    help="List, show, release or drop entities in quarantine. A service could not apply a message about them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@quarantine.command("list")
@with_options
def list_(output: OutputOption = "table", *, platform: PlatformOptions) -> None:
    """List the quarantine, the longest first.

    It says which consumer put an entity there, why, and how many messages wait.
    """
    from steelyard.cli.output import check_form

    check_form(output)
    with platform.connect() as client:
        typer.echo(_render(client.quarantine.list(), output))


@quarantine.command("show")
@with_options
def show(
    id: IdArgument,
    consumer: ConsumerOption = None,
    output: OutputOption = "yaml",
    *,
    platform: PlatformOptions,
) -> None:
    """Print why an entity is in quarantine.

    Each message that waits is printed too; the first is the one that failed.
    """
    from steelyard.cli.output import check_form

    check_form(output)
    with platform.connect() as client:
        entities = client.quarantine.get(_whole(client, id), consumer)
        typer.echo(_render(entities, output))


@quarantine.command("release")
@with_options
def release(id: IdArgument, consumer: ConsumerOption = None, *, platform: PlatformOptions) -> None:
    """Try the failed message once more, then the waiting ones.

    Use it after an upgrade that mends the fault. The messages keep their order. One that fails again goes back into
    quarantine, with all that wait behind it: nothing is lost.
    """
    with platform.connect() as client:
        typer.echo(client.quarantine.release(_whole(client, id), consumer).message)


@quarantine.command("drop")
@with_options
def drop(id: IdArgument, consumer: ConsumerOption = None, *, platform: PlatformOptions) -> None:
    """Leave out the failed message, and apply the waiting ones.

    The failed message stays among the dead letters of the log, and is not tried again.
    """
    with platform.connect() as client:
        typer.echo(client.quarantine.drop(_whole(client, id), consumer).message)


def _whole(client: Any, text: str) -> str:
    """The id that begins so. Raises UsageError where several in quarantine do."""
    from steelyard_common.errors import UsageError

    ids = sorted({entity.id for entity in client.quarantine.list() if entity.id.startswith(text)})
    if len(ids) > 1 and text not in ids:
        raise UsageError(
            f"{text}: {len(ids)} ids in quarantine begin with it; give more of one: {', '.join(ids)}"
        )
    # One that is not listed goes to the API as it is, whose answer says that it is not there.
    return text if text in ids or not ids else str(ids[0])


def _render(entities: "Sequence[QuarantinedEntity]", form: str) -> str:
    import json

    content = [entity.dump() for entity in entities]
    match form:
        case "name":
            return "\n".join(dict.fromkeys(entity.id for entity in entities))
        case "json":
            return json.dumps(content, indent=2)
        case "yaml":
            import yaml

            return str(yaml.safe_dump(content, sort_keys=False)).rstrip()
    return _table(entities)


def _table(entities: "Sequence[QuarantinedEntity]") -> str:
    from steelyard.cli.output import columns

    if not entities:
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
        for entity in entities
    ]
    return columns(rows)
