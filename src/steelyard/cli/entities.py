"""`steelyard create, apply, get, describe, wait, label, delete`: entities of the platform, through the client."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.connection import (
    AWAITED,
    DELETED,
    PUBLISHED,
    TERMINATED,
    WORKFLOWS,
    KindArgument,
    OutputOption,
    PlatformOptions,
    collection_name,
    find_supporting,
    kind_argument,
    make_filters,
    one_id,
    parse_label,
)
from steelyard.cli.option_groups import with_options

if TYPE_CHECKING:
    from steelyard.client import Client
    from steelyard_schema.account import Account

FilesOption = Annotated[
    list[Path],
    typer.Option("--filename", "-f", help="File, folder of files, or - for standard input. May be repeated."),
]
IdArgument = Annotated[str, typer.Argument(help="Id, the beginning of an id, or name.")]


@with_options
def create(
    filename: FilesOption,
    output: OutputOption = "name",
    *,
    platform: PlatformOptions,
) -> None:
    """Create the entities that files describe. Calling it twice creates two of each.

    A document has `kind:` and the fields of the kind's create request, or is a `kind: List` of such `items:`.
    `as: NAME` names a document; in a later document `$(NAME)` stands for the id of its entity.
    """
    _make(filename, output, platform, again=False)


@with_options
def apply(
    filename: FilesOption,
    output: OutputOption = "name",
    *,
    platform: PlatformOptions,
) -> None:
    """Create the entities that files describe, once.

    A document that is applied again creates nothing new. The documents are those of `steelyard create`.
    """
    _make(filename, output, platform, again=True)


def _make(
    filename: list[Path],
    output: str,
    platform: PlatformOptions,
    *,
    again: bool,
) -> None:
    from steelyard.cli.documents import check_references, read
    from steelyard.cli.output import check_form, now, render
    from steelyard.client.errors import ApiError
    from steelyard_common.errors import UsageError

    check_form(output)
    documents, ids = read(filename), dict[str, str]()
    check_references(documents)
    with platform.connect() as client:
        for document in documents:
            fields = document.resolve(ids)
            key = document.key(fields) if again else None
            try:
                if document.collection == "accounts":
                    entity = _account(client, fields, again=again)
                else:
                    entity = getattr(client, document.collection).create(fields, idempotency_key=key)
            except (ApiError, UsageError) as error:
                error.args = (f"{document.where}: {error}",)  # says which of many documents is wrong
                raise
            # The answer to a new session holds its token, too.
            entity = getattr(entity, "inferencesession", entity)
            if document.name:
                ids[document.name] = entity.id or ""
            typer.echo(render([entity.dump()], output, document.collection, single=True, now=now()))


def _account(client: "Client", fields: dict[str, Any], *, again: bool) -> "Account":
    """Create an account, or return the one that has the name if `again`. Raises UsageError for other fields."""
    from steelyard_common.errors import UsageError

    name = fields.get("name")
    if set(fields) != {"name"} or not isinstance(name, str):
        raise UsageError(
            f"Account: should have `name:` and nothing else; has {', '.join(fields) or 'nothing'}"
        )
    existing = list(client.accounts.query(name=name)) if again else []
    return existing[0] if existing else client.accounts.create(name)


@with_options
def get(
    kind: KindArgument,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids or names. Default: all that match.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", "-l", help="Label to match, as key=value. May be repeated; all must match."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            "-w",
            help="Field to match, as field=value[,value...], such as status=Failed. May be repeated.",
        ),
    ] = None,
    order_by: Annotated[str | None, typer.Option(help="Field to sort by. Default: creationTime.")] = None,
    descending: Annotated[bool, typer.Option(help="Sort from the greatest to the smallest.")] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of entities. Default: all.")
    ] = None,
    deleted: Annotated[
        bool,
        typer.Option("--deleted", help="Show deleted ones too; an id or -w status=... shows them anyway."),
    ] = False,
    output: OutputOption = "table",
    *,
    platform: PlatformOptions,
) -> None:
    """Show entities of a kind."""
    from itertools import islice

    from steelyard.cli.output import check_form, now, render, table
    from steelyard.cli.scores import main_scores

    check_form(output)
    plural, main = collection_name(kind), dict[str, str]()
    with platform.connect() as client:
        collection = getattr(client, plural)
        if ids:
            entities = [collection.get(one_id(client, plural, text)) for text in ids]
        else:
            query = make_filters(label or [], where or [])
            if order_by or descending:
                order = "descending" if descending else "ascending"
                query |= {"orderBy": order_by or "creationTime", "order": order}
            # The query reads page after page while it is iterated: no more pages than needed are asked for.
            with_deleted = deleted or any(text.startswith(("id=", "status=")) for text in where or [])
            matching = (
                entity for entity in collection.query(**query) if entity.status != DELETED or with_deleted
            )
            entities = list(islice(matching, limit))
            if not entities:
                _warn_of_unknown(client, plural, where or [])
        if output == "table":
            main = main_scores(
                client, plural, [entity.id for entity in entities if entity.status == "Complete"]
            )
    if output == "table":
        typer.echo(table([entity.dump() for entity in entities], now(), main))
        return
    single = ids is not None and len(ids) == 1
    typer.echo(render([entity.dump() for entity in entities], output, plural, single=single, now=now()))


@with_options
def describe(
    kind: KindArgument,
    id: IdArgument,
    *,
    platform: PlatformOptions,
) -> None:
    """Show everything about one entity."""
    from steelyard.cli.output import describe, now
    from steelyard.cli.scores import score_lines

    plural = collection_name(kind)
    with platform.connect() as client:
        collection = getattr(client, plural)
        entity = collection.get(one_id(client, plural, id)).dump()
        progress = collection.progress(entity["id"]).message if plural in WORKFLOWS else None
        scores = score_lines(client, plural, entity["id"]) if entity.get("status") == "Complete" else ()
    typer.echo(describe(entity, plural, now(), progress, scores))


@with_options
def wait(
    kind: Annotated[str, kind_argument(AWAITED)],
    ids: Annotated[list[str], typer.Argument(help="Ids or names.")],
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Time limit in seconds, for all of them together.")
    ] = 3600,
    *,
    platform: PlatformOptions,
) -> None:
    """Wait until entities have succeeded. It prints what they wait for. Exit status 1 when one fails."""
    import time

    from steelyard.cli.output import status_text

    plural, until = (
        find_supporting(collection_name(kind, AWAITED), AWAITED, "status to wait for"),
        time.monotonic() + timeout,
    )

    with platform.connect() as client:
        collection = getattr(client, plural)

        def print_status(entity: object) -> None:
            content = entity.dump()  # type: ignore[attr-defined]
            waits = content["status"] in {"Created", "Admitted"} and plural in WORKFLOWS
            message = collection.progress(content["id"]).message if waits else status_text(content)
            typer.echo(f"{plural}/{content['id'][:8]}  {content['status']}  {message or ''}".rstrip())

        # All are looked up before the first one: a name that is mistyped must not be found out after an hour.
        for id in [one_id(client, plural, text) for text in ids]:
            collection.wait(id, timeout=max(until - time.monotonic(), 0.1), on_change=print_status)


@with_options
def label(
    kind: KindArgument,
    id: IdArgument,
    labels: Annotated[list[str], typer.Argument(help="key=value sets a label, key- removes it.")],
    *,
    platform: PlatformOptions,
) -> None:
    """Set or remove labels."""
    plural = collection_name(kind)
    patch = dict(parse_label(text) for text in labels)
    with platform.connect() as client:
        collection = getattr(client, plural)
        entity = one_id(client, plural, id)
        collection.label(entity, patch)
    typer.echo(f"{plural}/{entity} labelled")


@with_options
def publish(
    kind: Annotated[str, kind_argument(PUBLISHED)],
    id: IdArgument,
    access: Annotated[
        str,
        typer.Option(
            help="public: every account of the platform may get it, and download the page of a report, an audit or a "
            "safety case. internal: only marked. private: neither."
        ),
    ],
    *,
    platform: PlatformOptions,
) -> None:
    """Say who sees an entity: public, internal or private."""
    from steelyard_common.errors import UsageError
    from steelyard_schema.publication import access_label

    plural = find_supporting(collection_name(kind, PUBLISHED), PUBLISHED, "publication")
    try:
        access_label(access)
    except ValueError as error:
        raise UsageError(f"--{error}") from error
    with platform.connect() as client:
        collection = getattr(client, plural)
        entity = one_id(client, plural, id)
        collection.publish(entity, access)
    typer.echo(f"{plural}/{entity} {access}")


@with_options
def delete(
    kind: KindArgument,
    ids: Annotated[list[str], typer.Argument(help="Ids or names.")],
    *,
    platform: PlatformOptions,
) -> None:
    """Delete entities, and end what still runs of them."""
    plural = collection_name(kind)
    with platform.connect() as client:
        collection = getattr(client, plural)
        for id in [one_id(client, plural, text) for text in ids]:
            answer = collection.delete(id)
            typer.echo(f"{plural}/{id} deleted")
            if answer.message:
                typer.echo(f"steelyard: warning: {answer.message}", err=True)


@with_options
def terminate(
    kind: Annotated[str, kind_argument(TERMINATED)],
    id: IdArgument,
    *,
    platform: PlatformOptions,
) -> None:
    """End a running workflow. A run of a pipeline ends with its workflows."""
    plural = find_supporting(collection_name(kind, TERMINATED), TERMINATED, "workflow to end")
    with platform.connect() as client:
        collection = getattr(client, plural)
        id = one_id(client, plural, id)
        answer = collection.terminate(id)
    typer.echo(f"{plural}/{id} terminated{f': {answer.message}' if answer.message else ''}")


def _warn_of_unknown(client: "Client", plural: str, where: list[str]) -> None:
    """Say which entities and statuses that filters name are not there: nothing can have them."""
    from steelyard.cli.connection import COLLECTIONS
    from steelyard.client import NotFound

    for text in where:
        name, _, value = text.partition("=")
        if name == "status":
            _warn_of_statuses(plural, value.split(","))
            continue
        named = f"{name.lower()}s"
        if named not in COLLECTIONS or "," in value:
            continue
        try:
            getattr(client, named).get(value)
        except NotFound:
            hint = f"`steelyard get {named}` lists what there is"
            typer.echo(f"steelyard: warning: {text}: there is no {name} {value}; {hint}", err=True)


def _warn_of_statuses(plural: str, named: list[str]) -> None:
    from steelyard_schema.entities import PLURALS
    from steelyard_schema.status import statuses

    known = [status for kind, name in PLURALS.items() if name == plural for status in statuses(kind)]
    for status in named:
        if known and status not in known:
            typer.echo(
                f"steelyard: warning: status={status}: {plural} have none such; there are {', '.join(known)}",
                err=True,
            )
