"""`steelyard ray`: makes, shows, waits for and deletes Ray clusters."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.connection import OutputOption
from steelyard.cli.ray.connecting import (
    namespaces_text,
    next_command,
    read_config,
    show,
    show_change,
    with_client,
)
from steelyard.cli.train.cluster import ClusterOptions, on_cluster

if TYPE_CHECKING:
    from steelyard.clusters.client import Client
    from steelyard.clusters.ray.status import ClusterStatus

Name = Annotated[str, typer.Argument(metavar="CLUSTER", help="Name of the Ray cluster.")]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Show all namespaces.")]
Timeout = Annotated[
    float | None, typer.Option(metavar="SECONDS", help="Maximum time to wait. Default: no limit.")
]


@on_cluster
def apply(
    file: Annotated[
        Path,
        typer.Option("--file", "-f", metavar="FILE", help="YAML file with the fields of a ClusterConfig."),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the manifest and what would change; change nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Take over fields that others have set.")] = False,
    *,
    cluster: ClusterOptions,
) -> None:
    """Make a Ray cluster, or change it to what a file says."""
    from steelyard.clusters import ClusterConfig

    config = ClusterConfig(**read_config(file))
    if dry_run:
        typer.echo(str(with_client(cluster, lambda client: client.ray.clusters.dry_run(config))).rstrip())
        return
    applied = with_client(cluster, lambda client: client.ray.clusters.apply(config, force=force))
    wait = next_command(cluster, f"ray wait {applied.name}", namespace=applied.namespace)
    typer.echo(f"raycluster/{applied.name} applied; wait for it with: {wait}")


@on_cluster
def list_(
    all_namespaces: Everywhere = False, output: OutputOption = "table", *, cluster: ClusterOptions
) -> None:
    """Show the Ray clusters, and why one is not ready."""
    statuses = with_client(cluster, lambda client: client.ray.clusters.list(everywhere=all_namespaces))
    rows = [
        (
            status.namespace,
            status.name,
            status.phase,
            f"{status.workers}/{status.wanted}",
            _reason_text(status),
        )
        for status in statuses
    ]
    heading = ("NAMESPACE", "NAME", "PHASE", "WORKERS", "WHY")
    show(
        [status.resource for status in statuses],
        heading,
        rows,
        output,
        namespaces_text(cluster, all_namespaces),
    )


@on_cluster
def status(name: Name, output: OutputOption = "table", *, cluster: ClusterOptions) -> None:
    """Show the status of a Ray cluster, and what it waits for."""
    status = with_client(cluster, lambda client: client.ray.clusters.status(name))
    if output != "table":
        show([status.resource], (), (), output)
        return
    typer.echo(str(status))
    for problem in status.problems:
        typer.echo(f"  {problem}")
    if status.estimated_start is not None:
        typer.echo(f"  may start at {status.estimated_start:%H:%M}")


@on_cluster
def wait(name: Name, timeout: Timeout = None, *, cluster: ClusterOptions) -> None:
    """Wait until a Ray cluster is ready. The wait ends early, and says why, if the cluster cannot become ready."""

    def wait_for_start(client: "Client") -> "ClusterStatus":
        return client.ray.clusters.wait(name, timeout=timeout, on_change=show_change)

    typer.echo(str(with_client(cluster, wait_for_start)))


@on_cluster
def scale(
    name: Name,
    replicas: Annotated[int, typer.Argument(metavar="WORKERS", help="Number of workers.")],
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Group of the workers, where there are several.")
    ] = None,
    *,
    cluster: ClusterOptions,
) -> None:
    """Change the number of workers."""
    scaled = with_client(cluster, lambda client: client.ray.clusters.scale(name, replicas, group=group))
    groups = ", ".join(f"{count} (group {group})" for group, count in scaled.groups.items())
    typer.echo(f"raycluster/{name} scaled; workers wanted: {groups}")


@on_cluster
def dashboard(name: Name, *, cluster: ClusterOptions) -> None:
    """Print the address of a Ray cluster's dashboard."""
    from steelyard_common.errors import SteelyardError

    url = with_client(cluster, lambda client: client.ray.clusters.dashboard(name))
    if url is None:
        raise SteelyardError(
            f"{name}: no Ingress and no Route leads to its dashboard; forward its port with: "
            f"kubectl port-forward -n {cluster.find().namespace} service/{name}-head-svc 8265"
        )
    typer.echo(url)


@on_cluster
def certificate(
    name: Name,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder for keys and certificates. Default: one in the user's data folder."
        ),
    ] = None,
    *,
    cluster: ClusterOptions,
) -> None:
    """Get a certificate for Ray's client, and print its variables. With it the client connects to a Ray cluster.

    The key is made on this machine. Use it as: eval "$(steelyard ray certificate CLUSTER)"
    """
    import shlex

    made = with_client(cluster, lambda client: client.ray.clusters.certificate(name, folder=folder))
    for variable, value in made.environment.items():
        typer.echo(f"export {variable}={shlex.quote(value)}")


@on_cluster
def delete(name: Name, *, cluster: ClusterOptions) -> None:
    """Delete a Ray cluster, and with it its Pods."""
    with_client(cluster, lambda client: client.ray.clusters.delete(name))
    typer.echo(f"raycluster/{name} deleted")


def _reason_text(status: Any) -> str:
    return ": ".join(word for word in (status.reason, status.message) if word)
