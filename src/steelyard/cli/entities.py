"""`steelyard create, apply, get, describe, wait, label, delete`: entities of the platform, through the client."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.connection import (
    ENTITIES,
    WORKFLOWS,
    KindArgument,
    OutputOption,
    PlatformOptions,
    collection_name,
    on_platform,
    one_id,
    one_of,
)

if TYPE_CHECKING:
    from steelyard.client import Client
    from steelyard.schema.account import Account

FilesOption = Annotated[
    list[Path], typer.Option("--filename", "-f", help="A file, a folder of files, or - for standard input.")
]
IdArgument = Annotated[str, typer.Argument(help="An id, the beginning of one, or a name.")]


@on_platform
def create(
    filename: FilesOption,
    output: OutputOption = "name",
    *,
    platform: PlatformOptions,
) -> None:
    """Make the entities that files describe. Twice makes two of each.

    A document has `kind:` and the fields of the kind's create request, or is a `kind: List` of such `items:`.
    `as: NAME` names it; in a later one `$(NAME)` stands for the id of its entity.
    """
    _make(filename, output, platform, again=False)


@on_platform
def apply(
    filename: FilesOption,
    output: OutputOption = "name",
    *,
    platform: PlatformOptions,
) -> None:
    """Make the entities that files describe, once.

    The same document applied again is the same entity. The documents are those of `steelyard create`.
    """
    _make(filename, output, platform, again=True)


def _make(
    filename: list[Path],
    output: str,
    platform: PlatformOptions,
    *,
    again: bool,
) -> None:
    from steelyard.cli.documents import read
    from steelyard.cli.output import check_form, now, rendered
    from steelyard.client.errors import ApiError
    from steelyard.errors import UsageError

    check_form(output)
    documents, ids = read(filename), dict[str, str]()
    with platform.connect() as client:
        for document in documents:
            fields = document.resolved(ids)
            key = document.key(fields) if again else None
            try:
                if document.collection == "accounts":
                    entity = _account(client, fields, again=again)
                else:
                    entity = getattr(client, document.collection).create(fields, idempotency_key=key)
            except (ApiError, UsageError) as error:
                error.args = (f"{document.where}: {error}",)  # one of many documents: which
                raise
            entity = getattr(entity, "inferencesession", entity)
            if document.name:
                ids[document.name] = entity.id or ""
            typer.echo(rendered([entity.dump()], output, document.collection, single=True, now=now()))


def _account(client: "Client", fields: dict[str, Any], *, again: bool) -> "Account":
    """A new account, or `again` the one that has the name. Raises UsageError for other fields than a name."""
    from steelyard.errors import UsageError

    name = fields.get("name")
    if set(fields) != {"name"} or not isinstance(name, str):
        raise UsageError(
            f"Account: should have `name:` and nothing else; has {', '.join(fields) or 'nothing'}"
        )
    there = list(client.accounts.query(name=name)) if again else []
    return there[0] if there else client.accounts.create(name)


@on_platform
def get(
    kind: KindArgument,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids or names; none: all that match.")] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", "-l", help="key=value; may be repeated, all have to match.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", "-w", help="field=value[,value...], such as status=Failed; may be repeated."),
    ] = None,
    order_by: Annotated[str | None, typer.Option(help="A field; by default creationTime.")] = None,
    descending: Annotated[bool, typer.Option(help="The greatest first.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
    output: OutputOption = "table",
    *,
    platform: PlatformOptions,
) -> None:
    """Show entities of a kind."""
    from itertools import islice

    from steelyard.cli.output import check_form, now, rendered

    check_form(output)
    plural = collection_name(kind)
    with platform.connect() as client:
        collection = getattr(client, plural)
        if ids:
            found = [collection.get(one_id(collection, each)) for each in ids]
        else:
            asked = _filters(label or [], where or [])
            if order_by or descending:
                order = "descending" if descending else "ascending"
                asked |= {"orderBy": order_by or "creationTime", "order": order}
            found = list(islice(collection.query(**asked), limit))
    single = ids is not None and len(ids) == 1
    typer.echo(rendered([each.dump() for each in found], output, plural, single=single, now=now()))


@on_platform
def describe(
    kind: KindArgument,
    id: IdArgument,
    *,
    platform: PlatformOptions,
) -> None:
    """Show everything about one entity."""
    from steelyard.cli.output import described, now

    plural = collection_name(kind)
    with platform.connect() as client:
        collection = getattr(client, plural)
        entity = collection.get(one_id(collection, id)).dump()
        progress = collection.progress(entity["id"]).message if plural in WORKFLOWS else None
    typer.echo(described(entity, plural, now(), progress))


@on_platform
def wait(
    kind: KindArgument,
    ids: Annotated[list[str], typer.Argument(help="Ids or names.")],
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds, for all of them together.")] = 3600,
    *,
    platform: PlatformOptions,
) -> None:
    """Wait until entities have ended well, saying what they wait for. Exit status 1 when one ends badly."""
    import time

    from steelyard.cli.output import why

    plural, until = one_of(collection_name(kind), ENTITIES, "status to wait for"), time.monotonic() + timeout

    with platform.connect() as client:
        collection = getattr(client, plural)

        def said(entity: object) -> None:
            content = entity.dump()  # type: ignore[attr-defined]
            waits = content["status"] in {"Created", "Admitted"} and plural in WORKFLOWS
            how = collection.progress(content["id"]).message if waits else why(content)
            typer.echo(f"{plural}/{content['id'][:8]}  {content['status']}  {how or ''}".rstrip())

        for each in [one_id(collection, id) for id in ids]:
            collection.wait(each, timeout=max(until - time.monotonic(), 0.1), on_change=said)


@on_platform
def label(
    kind: KindArgument,
    id: IdArgument,
    labels: Annotated[list[str], typer.Argument(help="key=value sets a label, key- takes it away.")],
    *,
    platform: PlatformOptions,
) -> None:
    """Set or take away labels."""
    plural = one_of(collection_name(kind), ENTITIES, "labels")
    patch = dict(_label(each) for each in labels)
    with platform.connect() as client:
        collection = getattr(client, plural)
        collection.label(one_id(collection, id), patch)


@on_platform
def delete(
    kind: KindArgument,
    ids: Annotated[list[str], typer.Argument(help="Ids or names.")],
    *,
    platform: PlatformOptions,
) -> None:
    """Delete entities; what still runs of them is ended."""
    plural = collection_name(kind)
    with platform.connect() as client:
        collection = getattr(client, plural)
        for each in [one_id(collection, id) for id in ids]:
            done = collection.delete(each)
            typer.echo(f"{plural}/{each} deleted")
            if done.message:
                typer.echo(f"steelyard: warning: {done.message}", err=True)


@on_platform
def terminate(
    kind: KindArgument,
    id: IdArgument,
    *,
    platform: PlatformOptions,
) -> None:
    """End a workflow that runs, such as an inference session."""
    plural = one_of(collection_name(kind), WORKFLOWS, "workflow to end")
    with platform.connect() as client:
        collection = getattr(client, plural)
        each = one_id(collection, id)
        collection.terminate(each)
    typer.echo(f"{plural}/{each} terminated")


def _filters(labels: list[str], where: list[str]) -> dict[str, object]:
    import json

    from steelyard.errors import UsageError

    asked: dict[str, object] = {}
    query: dict[str, list[str]] = {}
    for each in where:
        name, found, value = each.partition("=")
        if not found or not name:
            raise UsageError(f"--where {each}: should be field=value")
        values = value.split(",")
        if len(values) > 1:
            query[name] = values
        else:
            asked[name] = value
    if query:
        asked["query"] = json.dumps(query)
    for each in labels:
        if not each.partition("=")[1]:
            raise UsageError(f"--label {each}: should be key=value")
    if labels:
        asked["labels"] = dict(_label(each) for each in labels)
    return asked


def _label(text: str) -> tuple[str, str | None]:
    from steelyard.errors import UsageError

    key, found, value = text.partition("=")
    if not found and text.endswith("-"):
        return text[:-1], None
    if not found or not key:
        raise UsageError(f"{text}: should be key=value, or key- to take it away")
    return key, value
