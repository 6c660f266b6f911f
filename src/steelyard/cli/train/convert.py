"""`steelyard train convert`: turns jobs in the list form of early operators into manifests of today."""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.extras import needs


@needs("local")
def convert(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="YAML file with jobs, or - for standard input.")
    ],
) -> None:
    """Turn jobs of early operators into manifests of today.

    The manifests are of the framework's kind in kubeflow.org/v1. The command reads jobs whose spec is a list of
    replicas, or has one below replicaSpecs, and jobs of versions just before v1. It prints the manifests, and on
    standard error the changes: steelyard train convert old.yaml | kubectl apply -f -
    """
    import sys

    import yaml

    from steelyard.cli.lists import list_items
    from steelyard.clusters.training.convert import convert as converted
    from steelyard_common.bounded_yaml import fault_text, load_all
    from steelyard_common.errors import UsageError
    from steelyard_common.whole_files import read_whole

    try:
        text = read_whole(sys.stdin.buffer if str(file) == "-" else file).decode()
        documents = [document for document in load_all(text) if document is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from error
    # ValueError: a date that there is not, such as 2026-02-30, which YAML reads as one.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{file}: is not YAML: {fault_text(error)}") from error
    if not documents:
        raise UsageError(f"{file}: holds no job")
    items = [
        item
        for number, document in enumerate(documents, 1)
        for _, item in list_items(document, f"{file}, document {number}")
    ]
    jobs = [converted(item) for item in items]
    for job in jobs:
        for note in job.notes:
            typer.echo(f"# {job.resource['metadata']['name']}: {note}", err=True)
    typer.echo(yaml.safe_dump_all([job.resource for job in jobs], sort_keys=False), nl=False)
