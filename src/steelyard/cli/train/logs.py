"""`steelyard train logs`: prints what the replicas have written, merged."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.train.cluster import ClusterOptions, ClusterTarget, JobArgument, on, on_cluster

if TYPE_CHECKING:
    from steelyard.clusters.training.logs import LogCluster
    from steelyard.clusters.training.view import JobView

WHY_GONE = {
    "Suspended": "is stopped",
    "Restarting": "is restarting",
    "Failed": "has failed",
    "Succeeded": "has succeeded",
}


@on_cluster
def logs(
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new lines until the job has ended.")
    ] = False,
    replica: Annotated[
        list[str] | None,
        typer.Option(
            "--replica",
            "-r",
            metavar="NAME",
            help="Replica such as worker-0, or worker for all of a type. May be repeated.",
        ),
    ] = None,
    tail: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, metavar="N", help="Print only the last N lines of every replica."),
    ] = None,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Print the time of every line.")] = False,
    *,
    cluster: ClusterOptions,
) -> None:
    """Print what the replicas have written, in the order of time.

    With --follow, lines appear as they are written, and a terminal shows progress reports as one status line. Ctrl-C
    ends the command, not the job.
    """
    place = cluster.find()
    if follow:
        on(place, lambda api: _follow(api, place, job, replica or [], tail))
    else:
        on(place, lambda api: _print(api, place, job, replica or [], tail, timestamps))


async def _print(
    api: "LogCluster",
    place: ClusterTarget,
    name: str,
    replicas: list[str],
    tail: int | None,
    timestamps: bool,
) -> None:
    from steelyard.cli.train.screen import Prefixes, coloured
    from steelyard.clusters.training import jobs
    from steelyard.clusters.training.logs import Tail, choose_pods, list_lines, previous

    job = await jobs.find(api, name, place.namespace)
    check_replicas(job, replicas)
    pods = choose_pods(await jobs.pods(api, job), replicas, job)
    # The kubelet keeps the log of a container's last attempt, in addition to that of the present one.
    lines = [line for pod in pods for line in await previous(api, pod)] if tail is None else []
    lines += await list_lines([Tail(api, pod) for pod in pods], tail)
    prefixes = Prefixes(coloured())
    prefixes.expect([line.replica for line in lines])
    for line in sorted(lines, key=lambda line: line.time):
        when = f"{line.time} " if timestamps else ""
        print(f"{when}{prefixes.find_prefix(line.replica)}{line.text}")
    if not lines:
        typer.echo(_no_lines_reason(job, gone=not pods), err=True)


def check_replicas(job: "JobView", names: Sequence[str]) -> None:
    """Raise UsageError for a name that no replica and no type of the job has."""
    from steelyard_common.errors import UsageError

    replicas = [replica.name for replica in job.replicas]
    known = {*replicas, *(name.rpartition("-")[0] for name in replicas)}
    for name in names:
        if name.lower().removeprefix(f"{job.name}-") not in known:
            raise UsageError(
                f"--replica {name}: {job.name} has no such replica; there are {', '.join(replicas)}"
            )


def _no_lines_reason(job: "JobView", *, gone: bool) -> str:
    """The reason why there are no lines: none were written, or they were deleted with their Pods."""
    if gone and job.state in WHY_GONE:
        return f"no logs are left: {job.name} {WHY_GONE[job.state]}, and its logs were deleted with its Pods"
    return f"nothing is written{' yet' if not job.finished else ''}"


async def _follow(
    api: "LogCluster", place: ClusterTarget, name: str, replicas: list[str], tail: int | None
) -> None:
    import asyncio

    from steelyard.cli.train import wording
    from steelyard.cli.train.follower import Follower
    from steelyard.cli.train.screen import coloured, open_screen
    from steelyard.clusters.training import jobs
    from steelyard.clusters.training.following import follow

    job, screen = await jobs.find(api, name, place.namespace), open_screen(None)
    check_replicas(job, replicas)
    follower = Follower(screen, job, raw=not coloured())
    try:
        job = await follower.run(follow(api, job, replicas=replicas, tail=tail))
        screen.ends({}, wording.end_text(job), bad=job.state == "Failed")
    except asyncio.CancelledError:  # Ctrl-C
        screen.ends(
            {}, f"{wording.full_name(job)} goes on; stop it with: {place.command(f'stop {job.name}')}"
        )
        raise
    finally:
        screen.close()
