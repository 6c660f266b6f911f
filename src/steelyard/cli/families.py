"""`steelyard family …` and `steelyard document`: tags of versions, and texts about entities."""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.connection import ENTITIES, PlatformOptions, collection_name, kind_argument, one_id
from steelyard.cli.option_groups import with_options

FamilyArgument = Annotated[str, typer.Argument(help="Family: its id, the beginning of it, or its title.")]
TagArgument = Annotated[str, typer.Argument(help="Tag, such as v2.")]

family = typer.Typer(
    help="Give versions of one kind their tags.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@family.command("tag")
@with_options
def tag(
    id: FamilyArgument,
    tag: TagArgument,
    member: Annotated[str, typer.Argument(help="Entity of the family's kind: its id or name.")],
    description: Annotated[str | None, typer.Option(help="News of this version.")] = None,
    *,
    platform: PlatformOptions,
) -> None:
    """Give an entity a tag, in place of the one that has it. In requests FAMILY@TAG stands for the entity's id."""
    from steelyard_schema.entities import PLURALS

    with platform.connect() as client:
        asked = client.families.get(one_id(client, "families", id))
        kind = asked.memberKind
        entity = {"kind": kind, "id": one_id(client, PLURALS[kind], member)}
        client.families.edit_members(asked.id, {tag: {"entity": entity, "description": description}})
    typer.echo(f"{asked.id}@{tag} is {PLURALS[kind]}/{entity['id']}")


@family.command("untag")
@with_options
def untag(id: FamilyArgument, tag: TagArgument, *, platform: PlatformOptions) -> None:
    """Take a tag away. Entities that were asked for by it stay as they are."""
    from steelyard_common.errors import UsageError

    with platform.connect() as client:
        asked = client.families.get(one_id(client, "families", id))
        if tag not in asked.members:
            raise UsageError(
                f"{tag}: is not a tag of the family; there are {', '.join(asked.members) or 'none'}"
            )
        client.families.edit_members(asked.id, {tag: None})
    typer.echo(f"{asked.id}@{tag} is not a tag any more")


@with_options
def document(
    kind: Annotated[str, kind_argument(ENTITIES)],
    id: Annotated[str, typer.Argument(help="Id, the beginning of an id, or name.")],
    title: Annotated[str | None, typer.Option(help="Title; an empty one removes it.")] = None,
    summary: Annotated[str | None, typer.Option(help="Summary; an empty one removes it.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="File with the whole page, in Markdown.", exists=True, dir_okay=False)
    ] = None,
    *,
    platform: PlatformOptions,
) -> None:
    """Show the documentation of an entity. With an option, write it; other texts stay."""
    from steelyard.cli.eval.option_values import read

    plural = collection_name(kind, ENTITIES)
    patch = {
        name: text or None
        for name, text in (
            ("title", title),
            ("summary", summary),
            ("fullPage", page and read("--page", page)),
        )
        if text is not None
    }
    with platform.connect() as client:
        collection = getattr(client, plural)
        entity = one_id(client, plural, id)
        texts = collection.edit_documentation(entity, **patch) if patch else collection.documentation(entity)
    parts = [text for text in (texts.title, texts.summary, texts.fullPage) if text]
    typer.echo("\n\n".join(parts) or f"{plural}/{entity} has no documentation")
