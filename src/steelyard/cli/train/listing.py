"""`steelyard train list`: shows the training jobs."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.connection import OutputOption
from steelyard.cli.train.cluster import ClusterOptions, on, on_cluster

if TYPE_CHECKING:
    from steelyard.clusters.training.view import JobView


@on_cluster
def list_(
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Show the jobs of every namespace.")
    ] = False,
    output: OutputOption = "table",
    *,
    cluster: ClusterOptions,
) -> None:
    """Show the training jobs, the newest last."""
    from steelyard.cli.output import check_form, now
    from steelyard.clusters.training import jobs

    check_form(output)
    place = cluster.find()
    views = on(place, lambda api: jobs.list_jobs(api, None if all_namespaces else place.namespace))
    if output == "table" and not views:
        typer.echo(f"no training job yet; make one with: {place.command('run SCRIPT --workers N')}")
        return
    typer.echo(render(views, output, now(), namespaces=all_namespaces))


def render(jobs: Sequence["JobView"], form: str, now: datetime, *, namespaces: bool = False) -> str:
    """Return the jobs in the form `form`: table, json, yaml or name."""
    import json

    import yaml

    from steelyard.cli.output import columns

    resources = [job.resource for job in jobs]
    match form:
        case "name":
            return "\n".join(f"{job.kind.lower()}/{job.name}" for job in jobs)
        case "json":
            return json.dumps(resources, indent=2)
        case "yaml":
            return str(yaml.safe_dump(resources, sort_keys=False)).rstrip()
    heading = ("NAME", "FRAMEWORK", "STATE", "REPLICAS", "RESTARTS", "AGE")
    rows = [heading, *(_row(job, now) for job in jobs)]
    if namespaces:
        own = ("NAMESPACE", *(job.namespace for job in jobs))
        rows = [(space, *row) for space, row in zip(own, rows, strict=True)]
    return columns(rows)


def _row(job: "JobView", now: datetime) -> tuple[str, ...]:
    from steelyard.cli.output import age

    total = sum(job.counts.values())
    ready = job.succeeded if job.state == "Succeeded" else job.running
    word = "done" if job.state == "Succeeded" else "running"
    standing = (
        f"{ready}/{total} {word}" if job.state in {"Running", "Restarting", "Succeeded"} else str(total)
    )
    created = {"creationTime": job.created.isoformat()} if job.created else {}
    return (job.name, job.framework, job.state, standing, str(job.restarts), age(created, now))
