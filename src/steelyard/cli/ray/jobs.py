"""`steelyard ray job`: submits Ray jobs, shows them, follows their logs, stops them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import OutputOption
from steelyard.cli.ray.clusters import Everywhere, Timeout
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
    from steelyard.clusters.ray.job_status import JobStatus

Name = Annotated[str, typer.Argument(metavar="JOB", help="Name of the Ray job.")]


@on_cluster
def submit(
    file: Annotated[
        Path, typer.Option("--file", "-f", metavar="FILE", help="YAML file with the fields of a JobConfig.")
    ],
    *,
    cluster: ClusterOptions,
) -> None:
    """Submit a Ray job; its files are checked first."""
    from steelyard.clusters import JobConfig

    config = JobConfig(**read_config(file))
    submitted = with_client(cluster, lambda client: client.ray.jobs.submit(config))
    follow = next_command(cluster, f"ray job logs -f {submitted.name}", namespace=submitted.namespace)
    typer.echo(f"rayjob/{submitted.name} submitted; follow it with: {follow}")


@on_cluster
def list_(
    all_namespaces: Everywhere = False, output: OutputOption = "table", *, cluster: ClusterOptions
) -> None:
    """Show the Ray jobs, the newest last."""
    statuses = with_client(cluster, lambda client: client.ray.jobs.list(everywhere=all_namespaces))
    rows = [
        (status.namespace, status.name, status.phase, status.cluster, status.message) for status in statuses
    ]
    heading = ("NAMESPACE", "NAME", "PHASE", "CLUSTER", "WHY")
    show(
        [status.resource for status in statuses],
        heading,
        rows,
        output,
        namespaces_text(cluster, all_namespaces),
    )


@on_cluster
def status(name: Name, *, cluster: ClusterOptions) -> None:
    """Show the status of a Ray job, and its reason."""
    typer.echo(str(with_client(cluster, lambda client: client.ray.jobs.status(name))))


@on_cluster
def wait(name: Name, timeout: Timeout = None, *, cluster: ClusterOptions) -> None:
    """Wait until a Ray job has succeeded. If it fails, the exit status is 1 and the reason is shown."""

    def wait_for_end(client: "Client") -> "JobStatus":
        return client.ray.jobs.wait(name, timeout=timeout, on_change=show_change)

    typer.echo(str(with_client(cluster, wait_for_end)))


@on_cluster
def logs(
    name: Name,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the output until the job has ended; reconnects.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(metavar="LINES", help="Show only this number of last lines.")
    ] = None,
    *,
    cluster: ClusterOptions,
) -> None:
    """Show the output of a Ray job."""

    def print_lines(client: "Client") -> None:
        for line in client.ray.jobs.logs(name, follow=follow, tail=tail, on_change=show_change):
            typer.echo(line)

    with_client(cluster, print_lines)


@on_cluster
def stop(name: Name, *, cluster: ClusterOptions) -> None:
    """End the run of a Ray job; `resubmit` starts it again."""
    typer.echo(str(with_client(cluster, lambda client: client.ray.jobs.stop(name))))


@on_cluster
def resubmit(
    name: Name,
    new_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the new job, where the old one has finished.")
    ] = None,
    *,
    cluster: ClusterOptions,
) -> None:
    """Run a stopped job again, or a finished one as a new job."""
    from steelyard.clusters import BadConfig
    from steelyard_common.errors import UsageError

    try:
        again = with_client(cluster, lambda client: client.ray.jobs.resubmit(name, new_name=new_name))
    except BadConfig as error:
        if {fault.field for fault in error.faults} != {"new_name"}:
            raise
        raise UsageError(
            f"{name}: only a stopped job runs again under its name; name the new one with --new-name NAME"
        ) from error
    typer.echo(str(again))


@on_cluster
def delete(name: Name, *, cluster: ClusterOptions) -> None:
    """Delete a Ray job, its files, and the cluster made for it."""
    with_client(cluster, lambda client: client.ray.jobs.delete(name))
    typer.echo(f"rayjob/{name} deleted")
