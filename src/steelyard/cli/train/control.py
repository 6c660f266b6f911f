"""`steelyard train wait, stop, resume, delete`."""

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.train.cluster import ClusterOptions, JobArgument, on, on_cluster

if TYPE_CHECKING:
    from steelyard.clusters.training.logs import LogCluster
    from steelyard.clusters.training.view import JobView
    from steelyard_kube.client import RestCluster

JobsArgument = Annotated[
    list[str], typer.Argument(metavar="JOB...", help="Names of jobs, or KIND/NAME such as pytorchjob/digits.")
]


@on_cluster
def wait(
    job: JobArgument,
    timeout: Annotated[
        float | None, typer.Option(min=0.1, metavar="SECONDS", help="Time limit. Default: none.")
    ] = None,
    *,
    cluster: ClusterOptions,
) -> None:
    """Wait until a job has ended.

    What happens meanwhile, and why a replica does not start, is printed on standard error. Exit status: that of the
    job, as of `train run`.
    """
    from steelyard.cli.train import wording
    from steelyard.clusters.training import jobs

    place = cluster.find()

    async def work(api: "RestCluster") -> "JobView":
        view = await jobs.find(api, job, place.namespace)
        # A stopped job never ends by itself: the wait would be silent.
        if view.state == "Suspended":
            typer.echo(
                f"{view.name} is stopped; go on with it: {place.command(f'resume {view.name}')}", err=True
            )
        return await wait_for_end(api, view, timeout)

    ended = on(place, work)
    typer.echo(wording.end_text(ended))
    raise typer.Exit(ended.exit_code)


async def wait_for_end(api: "LogCluster", job: "JobView", timeout: float | None) -> "JobView":
    """Return the job once it has ended, and print on standard error what happens until then. Raises WaitedTooLong."""
    import asyncio
    import sys

    from steelyard.cli.train.follower import Follower
    from steelyard.cli.train.screen import Plain
    from steelyard.clusters.training.errors import WaitedTooLong
    from steelyard.clusters.training.following import follow

    follower = Follower(Plain(sys.stderr), job, raw=True)
    try:
        async with asyncio.timeout(timeout):
            return await follower.run(follow(api, job, logs=False))
    except TimeoutError:
        state = follower.job.state
        raise WaitedTooLong(f"{job.name}: was not done after {timeout:g} s; it is {state}") from None


@on_cluster
def stop(job: JobsArgument, *, cluster: ClusterOptions) -> None:
    """End the Pods of jobs. `resume` starts them again, from what their programs have saved."""
    from steelyard.clusters.training import jobs

    place = cluster.find()

    async def work(api: "RestCluster") -> None:
        for name in job:
            view = await jobs.stop(api, await jobs.find(api, name, place.namespace))
            typer.echo(f"{view.name} is stopped; go on with it: {place.command(f'resume {view.name}')}")

    on(place, work)


@on_cluster
def resume(job: JobsArgument, *, cluster: ClusterOptions) -> None:
    """Start stopped jobs again."""
    from steelyard.clusters.training import jobs

    place = cluster.find()

    async def work(api: "RestCluster") -> None:
        for name in job:
            view = await jobs.resume(api, await jobs.find(api, name, place.namespace))
            typer.echo(f"{view.name} goes on; follow it: {place.command(f'logs -f {view.name}')}")

    on(place, work)


@on_cluster
def delete(
    job: Annotated[
        list[str] | None, typer.Argument(metavar="JOB...", help="Names of jobs, or KIND/NAME.")
    ] = None,
    finished: Annotated[bool, typer.Option("--finished", help="Delete all jobs that have ended.")] = False,
    *,
    cluster: ClusterOptions,
) -> None:
    """Delete jobs, with their Pods and logs."""
    from steelyard.clusters.training import jobs
    from steelyard_common.errors import UsageError

    if bool(job) == finished:
        raise UsageError("name the jobs to delete, or give --finished for all that have ended")
    place = cluster.find()

    async def work(api: "RestCluster") -> None:
        views = [await jobs.find(api, name, place.namespace) for name in job or []]
        if finished:
            views = [view for view in await jobs.list_jobs(api, place.namespace) if view.finished]
        for view in views:
            await jobs.delete(api, view)
            typer.echo(f"{view.name} is deleted")
        if not views:
            typer.echo("no job has ended", err=True)

    on(place, work)
