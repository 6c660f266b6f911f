"""The command groups `ray`, `queue` and `appwrapper`; each command imports what it needs when it is called."""

import typer

from steelyard.cli.ray import clusters, demos, jobs, queues

RAY_HELP = """Ray clusters and Ray jobs on a cluster.

\b
steelyard ray apply -f cluster.yaml        make a Ray cluster, or change it
steelyard ray wait NAME                    until it is ready, or why it will not be
steelyard ray job submit -f job.yaml       run a job
steelyard ray job logs -f NAME             follow it
steelyard ray demos FOLDER                 guided demos, as Jupyter notebooks
"""

job_app = typer.Typer(help="Ray jobs.", no_args_is_help=True, rich_markup_mode=None)
job_app.command()(jobs.submit)
job_app.command("list")(jobs.list_)
job_app.command()(jobs.status)
job_app.command()(jobs.wait)
job_app.command()(jobs.logs)
job_app.command()(jobs.stop)
job_app.command()(jobs.resubmit)
job_app.command()(jobs.delete)

ray_app = typer.Typer(help=RAY_HELP, no_args_is_help=True, rich_markup_mode=None)
ray_app.command()(clusters.apply)
ray_app.command("list")(clusters.list_)
ray_app.command()(clusters.status)
ray_app.command()(clusters.wait)
ray_app.command()(clusters.scale)
ray_app.command()(clusters.dashboard)
ray_app.command()(clusters.certificate)
ray_app.command()(clusters.delete)
ray_app.command()(demos.demos)
ray_app.add_typer(job_app, name="job")

queue_app = typer.Typer(
    help="Queues of Kueue: what waits, for what, and how full they are.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
queue_app.command("list")(queues.list_queues)
queue_app.command()(queues.workloads)
queue_app.command()(queues.usage)
queue_app.command()(queues.cohorts)
queue_app.command()(queues.drain)
queue_app.command("resume")(queues.resume_queue)

appwrapper_app = typer.Typer(
    help="AppWrappers: groups of objects that run as one.", no_args_is_help=True, rich_markup_mode=None
)
appwrapper_app.command("list")(queues.list_wrappers)
appwrapper_app.command()(queues.status)
appwrapper_app.command()(queues.suspend)
appwrapper_app.command()(queues.resume)
appwrapper_app.command()(queues.delete)
