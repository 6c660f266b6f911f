"""`steelyard croissant show, take`: descriptions of datasets in the form that others read."""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.connection import PlatformOptions, one_id
from steelyard.cli.entities import IdArgument
from steelyard.cli.option_groups import with_options

croissant = typer.Typer(
    help="Describe datasets as Croissant, and take such descriptions.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@croissant.command()
@with_options
def show(id: IdArgument, *, platform: PlatformOptions) -> None:
    """Print a dataset as Croissant 1.0 (JSON-LD).

    Saved as croissant.json in the folder of `steelyard download dataset`, mlcroissant reads the rows from there.
    """
    import json

    with platform.connect() as client:
        content = client.datasets.croissant(one_id(client, "datasets", id))
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))


@croissant.command()
@with_options
def take(
    id: IdArgument,
    file: Annotated[
        Path | None,
        typer.Argument(help="Croissant file. Default: the one that the dataset's data source holds."),
    ] = None,
    *,
    platform: PlatformOptions,
) -> None:
    """Take the documentation of a dataset from a Croissant file.

    These are name, description, licence and citation.
    """
    from steelyard.client.files import json_object

    content = json_object(file) if file else None
    with platform.connect() as client:
        answer = client.datasets.take_croissant(one_id(client, "datasets", id), content)
    typer.echo(f"taken: {', '.join(answer.taken)}")
    for part in answer.leftOut:
        typer.echo(f"left out: {part}", err=True)
