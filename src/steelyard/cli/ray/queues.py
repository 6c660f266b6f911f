"""`steelyard queue` and `steelyard appwrapper`: queues, what waits in them, their usage; AppWrappers."""

from typing import Annotated

import typer

from steelyard.cli.connection import OutputOption
from steelyard.cli.ray.clusters import Everywhere
from steelyard.cli.ray.connecting import namespaces_text, next_command, show, with_client
from steelyard.cli.train.cluster import ClusterOptions, on_cluster

QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the ClusterQueue.")]
WrapperName = Annotated[str, typer.Argument(metavar="APPWRAPPER", help="Name of the AppWrapper.")]


@on_cluster
def list_queues(
    all_namespaces: Everywhere = False, output: OutputOption = "table", *, cluster: ClusterOptions
) -> None:
    """Show the queues of a namespace."""
    queues = with_client(cluster, lambda client: client.queues.list(everywhere=all_namespaces))
    rows = [
        (
            queue.namespace,
            queue.name + (" (default)" if queue.default else ""),
            queue.cluster_queue,
            str(queue.pending),
            str(queue.admitted),
            queue.stopped,
        )
        for queue in queues
    ]
    heading = ("NAMESPACE", "NAME", "CLUSTER QUEUE", "PENDING", "ADMITTED", "WHY")
    show(
        [queue.resource for queue in queues], heading, rows, output, namespaces_text(cluster, all_namespaces)
    )


@on_cluster
def workloads(
    queue: Annotated[str | None, typer.Option(metavar="NAME", help="Show only this queue.")] = None,
    all_namespaces: Everywhere = False,
    output: OutputOption = "table",
    *,
    cluster: ClusterOptions,
) -> None:
    """Show the workloads in the queues, and why they wait."""
    views = with_client(
        cluster, lambda client: client.queues.workloads(queue=queue, everywhere=all_namespaces)
    )
    rows = [
        (view.namespace, view.owner, view.queue, str(view.priority), view.state, view.why) for view in views
    ]
    heading = ("NAMESPACE", "WORKLOAD OF", "QUEUE", "PRIORITY", "STATE", "WHY")
    show([view.resource for view in views], heading, rows, output, namespaces_text(cluster, all_namespaces))


@on_cluster
def usage(*, cluster: ClusterOptions) -> None:
    """Show quota and usage of every cluster queue."""
    usages = with_client(cluster, lambda client: client.admin.usage())
    typer.echo("\n".join(map(str, usages)) or "nothing found")


@on_cluster
def cohorts(output: OutputOption = "table", *, cluster: ClusterOptions) -> None:
    """Show the cohorts: cluster queues that lend each other quota."""
    views = with_client(cluster, lambda client: client.admin.cohorts())
    rows = [(view.name, view.parent, ", ".join(view.queues), ", ".join(view.cohorts)) for view in views]
    # Cohorts that queues only name have no object.
    resources = [view.resource for view in views if view.resource]
    show(resources, ("NAME", "PARENT", "CLUSTER QUEUES", "COHORTS"), rows, output)


@on_cluster
def drain(
    name: QueueName,
    hold: Annotated[
        bool, typer.Option("--hold", help="Let running workloads end, and admit no more.")
    ] = False,
    *,
    cluster: ClusterOptions,
) -> None:
    """Stop a cluster queue, and evict its workloads."""
    with_client(cluster, lambda client: client.admin.drain(name, evict=not hold))
    again = next_command(cluster, f"queue resume {name}")
    typer.echo(f"clusterqueue/{name} stopped; let it admit again with: {again}")


@on_cluster
def resume_queue(name: QueueName, *, cluster: ClusterOptions) -> None:
    """Let a stopped cluster queue admit again."""
    with_client(cluster, lambda client: client.admin.resume(name))
    typer.echo(f"clusterqueue/{name} admits again")


@on_cluster
def list_wrappers(
    all_namespaces: Everywhere = False, output: OutputOption = "table", *, cluster: ClusterOptions
) -> None:
    """Show the AppWrappers, and why one does not run."""
    wrappers = with_client(cluster, lambda client: client.appwrappers.list(everywhere=all_namespaces))
    rows = [
        (
            wrapper.namespace,
            wrapper.name,
            wrapper.phase,
            wrapper.queue,
            str(wrapper.retries),
            wrapper.message,
        )
        for wrapper in wrappers
    ]
    heading = ("NAMESPACE", "NAME", "PHASE", "QUEUE", "RETRIES", "WHY")
    show(
        [wrapper.resource for wrapper in wrappers],
        heading,
        rows,
        output,
        namespaces_text(cluster, all_namespaces),
    )


@on_cluster
def status(name: WrapperName, *, cluster: ClusterOptions) -> None:
    """Show the status of an AppWrapper, and its reason."""
    typer.echo(str(with_client(cluster, lambda client: client.appwrappers.get(name))))


@on_cluster
def suspend(name: WrapperName, *, cluster: ClusterOptions) -> None:
    """Delete the parts of an AppWrapper; `resume` makes them again."""
    with_client(cluster, lambda client: client.appwrappers.suspend(name))
    again = next_command(cluster, f"appwrapper resume {name}")
    typer.echo(f"appwrapper/{name} is being suspended; bring its parts back with: {again}")


@on_cluster
def resume(name: WrapperName, *, cluster: ClusterOptions) -> None:
    """Make the parts of a suspended AppWrapper again."""
    with_client(cluster, lambda client: client.appwrappers.resume(name))
    typer.echo(f"appwrapper/{name} is being resumed")


@on_cluster
def delete(name: WrapperName, *, cluster: ClusterOptions) -> None:
    """Delete an AppWrapper and its parts."""
    with_client(cluster, lambda client: client.appwrappers.delete(name))
    typer.echo(f"appwrapper/{name} deleted")
