"""`steelyard train convert`: jobs of the list form of early operators, as manifests of today."""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.extras import needs


@needs("local")
def convert(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A YAML file with jobs, or - for standard input.")
    ],
) -> None:
    """Turn jobs of early operators into manifests of today.

    That is, of their framework's kind in kubeflow.org/v1. It reads those whose spec is a list of replicas, or has one
    below replicaSpecs, and those of versions just before v1. Prints them, and on standard error what was changed:
    steelyard train convert old.yaml | kubectl apply -f -
    """
    import sys

    import yaml

    from steelyard.cli.lists import items_of
    from steelyard.clusters.training.convert import convert as converted
    from steelyard.errors import UsageError

    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        documents = [each for each in yaml.safe_load_all(text) if each is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{file}: not YAML: {error}") from error
    if not documents:
        raise UsageError(f"{file}: holds no job")
    items = [
        item
        for number, document in enumerate(documents, 1)
        for _, item in items_of(document, f"{file}, document {number}")
    ]
    made = [converted(item) for item in items]
    for each in made:
        for note in each.notes:
            typer.echo(f"# {each.resource['metadata']['name']}: {note}", err=True)
    typer.echo(yaml.safe_dump_all([each.resource for each in made], sort_keys=False), nl=False)
