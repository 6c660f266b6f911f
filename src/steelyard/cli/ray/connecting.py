"""The cluster client of a command, and the output of what it answers."""

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from steelyard.cli.connection import command_name
from steelyard.cli.train.cluster import ClusterOptions

if TYPE_CHECKING:
    from steelyard.clusters.client import Client
    from steelyard_common.types import Json

T = TypeVar("T")


def with_client(cluster: ClusterOptions, work: Callable[["Client"], T]) -> T:
    """Do the work with a client of the cluster that the options name."""
    from steelyard.clusters import Client

    # Imported before the cluster is looked for: an installation without its packages names the extra.
    importlib.import_module("steelyard_kube.client")
    place = cluster.find()
    with Client(kubeconfig=place.kubeconfig, context=place.context, namespace=place.namespace) as client:
        return work(client)


def show_change(status: object) -> None:
    """Print a status on stderr, so that stdout holds only the result of the command."""
    typer.echo(str(status), err=True)


def show(
    resources: Sequence["Json"],
    heading: Sequence[str],
    rows: Sequence[Sequence[str]],
    form: str,
    where: str = "",
) -> None:
    """Print objects as a table, or in a form for programs; an empty table says `where` nothing is."""
    from steelyard.cli.output import check_form, columns

    match check_form(form):
        case "json":
            typer.echo(json.dumps(list(map(_readable, resources)), indent=2))
        case "yaml":
            import yaml

            typer.echo(str(yaml.safe_dump(list(map(_readable, resources)), sort_keys=False)).rstrip())
        case "name":
            typer.echo("\n".join(f"{item['kind'].lower()}/{item['metadata']['name']}" for item in resources))
        case _ if not rows:
            typer.echo(f"nothing found{where}")
        case _:
            typer.echo(columns([heading, *([_one_line(cell) for cell in row] for row in rows)]))


def namespaces_text(cluster: ClusterOptions, everywhere: bool) -> str:
    """Return the namespaces that a list has asked for, as the end of a sentence."""
    return (
        " in any namespace"
        if everywhere
        else f" in namespace {cluster.namespace or cluster.find().namespace}"
    )


def next_command(cluster: ClusterOptions, words: str, *, namespace: str | None = None) -> str:
    """Return `steelyard WORDS` as a user types it for the same cluster; `namespace` is one that a file names."""
    if namespace is not None:
        cluster = replace(cluster, namespace=namespace)
    return f"{command_name()} {words}{cluster.find().flags}"


def _readable(resource: "Json") -> "Json":
    metadata = {key: value for key, value in resource["metadata"].items() if key != "managedFields"}
    return {**resource, "metadata": metadata}


def _one_line(cell: str) -> str:
    first, *rest = cell.strip().split("\n", 1)
    return f"{first} ..." if rest else first


def read_config(file: Path) -> dict[str, Any]:
    """Return the fields of a configuration in a YAML file. Raises UsageError."""
    import yaml

    from steelyard_common.bounded_yaml import load
    from steelyard_common.errors import UsageError
    from steelyard_common.whole_files import read_whole

    try:
        fields = load(read_whole(file).decode())
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from error
    if not isinstance(fields, dict):
        raise UsageError(f"{file}: should have the fields of a configuration, such as name")
    if "apiVersion" in fields and "kind" in fields:
        raise UsageError(
            f"{file}: is a manifest of Kubernetes ({fields['kind']}): kubectl apply -f {file} applies it; "
            "here a file has the fields of a configuration, such as name"
        )
    return fields
